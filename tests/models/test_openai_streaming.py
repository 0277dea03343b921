"""Events out of the bytes of a streamed answer, and answers that are not streamed as they should be."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs.scripted_server import Fault, ScriptedServer
from tests.models.served import ALL, RAW, event, model_of, texts, told, write

from askance.core.errors import ModelFailure, ModelSpecError, ModelUnavailable
from askance.core.types import GenerateRequest, Sampling, Want
from askance.models.openai.streaming import NoJson, Values
from askance.models.scripted import ScriptedModel


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(lambda shown, key: " It is Bonn. So")) as server:
        yield server


def values_of(*chunks):
    """What is told with each chunk, and at the end."""
    values = Values()
    found = [list(values.take(chunk)) for chunk in chunks]
    return [*found, list(values.rest())]


def flat(found):
    return [value for values in found for value in values]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@given(st.lists(st.dictionaries(st.text(), st.text(), max_size=2), max_size=5), st.data())
@settings(max_examples=60, deadline=None)
def test_events_are_found_however_their_bytes_are_divided(end, told, data):
    lines = [f"data: {json.dumps(value, ensure_ascii=False)}{end}{end}" for value in told]
    raw = "".join(lines).encode("utf-8", "replace")
    expected = [json.loads(line.encode("utf-8", "replace").removeprefix(b"data: ")) for line in lines]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    chunks = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert flat(values_of(*chunks)) == expected


def test_an_event_is_told_as_soon_as_it_is_whole():
    assert values_of(b"data: 1\n", b"\ndata: 2\n\ndata: ", b"3\n\n") == [[], [1, 2], [3], []]


def test_what_is_no_data_is_left_out():
    assert flat(values_of(b": hello\n\nevent: message\nid: 7\nretry: 3\ndata: 1\n\n\n\nfoo: 2\n\n")) == [1]


def test_data_of_several_lines_is_one_value():
    assert flat(values_of(b'data: {"a":\ndata:  1,\ndata:"b": 2}\n\n')) == [{"a": 1, "b": 2}]


def test_nothing_follows_the_end():
    values = Values()
    assert list(values.take(b"data: 1\n\ndata: [DONE]\n\ndata: 2\n\n")) == [1]
    assert values.is_done


def test_an_event_without_an_end_is_none():
    assert flat(values_of(b"data: 1\n\ndata: 2\n")) == [1]


@pytest.mark.parametrize("raw", [b"data: {oops\n\n", b'data: "\xff"\n\n', b'{"a": ', b"[\xff]"])
def test_what_is_no_json(raw):
    with pytest.raises(NoJson):
        values_of(raw)


def test_what_came_before_broken_bytes_is_told():
    values = Values().take(b"data: 1\n\ndata: {oops\n\n")
    assert next(values) == 1
    with pytest.raises(NoJson):
        next(values)


def test_an_answer_in_one_piece_is_one_value():
    text = json.dumps({"a": "data: 1\n\n"}, indent=1).encode()
    assert flat(values_of(b"\n ", text[:5], text[5:])) == [{"a": "data: 1\n\n"}]


def whole(*tokens, finish="stop"):
    top = [{token: -0.5} for token in tokens]
    return {
        **event("".join(tokens), told(*tokens, top=top), finish),
        "usage": {"prompt_tokens": 9, "completion_tokens": len(tokens)},
    }


def test_a_server_that_does_not_stream_although_it_is_asked_to(server):
    pieces, want = [], Want(logprob=True, entropy=True)
    server.faults.append(Fault(body=whole(" It", " is", " Bonn.", " So")))
    (written,) = write(model_of(server), want=want, watch=pieces.append)
    assert (written.text, written.finish, written.prompt_tokens) == (" It is Bonn. So", "end", 9)
    assert texts(written) == pieces == [" It", " is", " Bonn.", " So"]
    assert [token.logprob for token in written.tokens] == [-0.5] * 4
    (streamed,) = write(model_of(server), RAW)
    assert streamed.text == written.text, "the connection is as good as it was"


@pytest.mark.parametrize(
    ("body", "error", "expected"),
    [
        ({"error": {"message": "Overloaded"}}, ModelUnavailable, "broke off its answer: Overloaded"),
        ({"error": "bad grammar"}, ModelFailure, "broke off its answer: bad grammar"),
        ({"choices": []}, ModelFailure, "an answer without a choice"),
        ([1], ModelFailure, "an event that is no object"),
        ("{oops", ModelFailure, "no JSON"),
        (
            "<html>oops</html>",
            ModelSpecError,
            "a web page .'<html>oops</html>'.*the URL ends as",
        ),
    ],
)
def test_answers_in_one_piece_that_are_none(server, body, error, expected):
    server.faults.append(Fault(body=body))
    with pytest.raises(error, match=expected):
        write(model_of(server))


def test_an_answer_in_one_piece_that_is_cut(server):
    server.faults.append(Fault(body='{"choices": [', headers={"Content-Length": "1000"}, ends="cut"))
    with pytest.raises(ModelUnavailable, match="cut the connection"):
        write(model_of(server))


def test_an_error_behind_a_text_that_was_cut_does_not_count(server):
    broken = {"error": {"message": "Overloaded"}}
    server.faults.append(Fault(events=[event(" It\n"), broken]))
    (written,) = write(model_of(server), stop=("\n",))
    assert (written.text, written.finish) == (" It", "stop")


def test_an_error_of_whoever_watches_is_not_the_servers(server):
    def watch(text):
        raise BrokenPipeError("nobody reads")

    with pytest.raises(BrokenPipeError, match="nobody reads"):
        write(model_of(server), watch=watch)


@pytest.mark.parametrize("num_requests", [3, 120])
def test_connections_are_used_again(server, num_requests):
    model = model_of(server, f"{ALL}&in_flight={num_requests}")

    async def twice():
        for _ in range(2):
            await asyncio.gather(
                *(
                    model.generate(GenerateRequest(RAW, Sampling(9), key=(number,)))
                    for number in range(num_requests)
                )
            )

    asyncio.run(twice())
    assert len(server.requests) == 2 * num_requests
    assert server.num_connections == num_requests
