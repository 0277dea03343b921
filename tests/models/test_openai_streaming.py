"""Test responses that are not streamed correctly."""

import asyncio
import json
import socket
import threading

import pytest
from benchmarks.scripted_server import Fault, ScriptedServer
from tests.models.served import ALL, RAW, event, logprobs_of, model_of, texts, write

from askance.configuration.build import load_model
from askance.core.errors import ModelFailure, ModelSpecError, ModelUnavailable
from askance.core.types import GenerateRequest, Sampling, Want
from askance.models.scripted import ScriptedModel


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(lambda shown, key: " It is Bonn. So")) as server:
        yield server


def whole(*tokens, finish="stop"):
    top = [{token: -0.5} for token in tokens]
    return {
        **event("".join(tokens), logprobs_of(*tokens, top=top), finish),
        "usage": {"prompt_tokens": 9, "completion_tokens": len(tokens)},
    }


def test_a_server_that_does_not_stream_although_it_is_asked_to(server):
    pieces, want = [], Want(logprob=True, entropy=True)
    server.faults.append(Fault(body=whole(" It", " is", " Bonn.", " So")))
    (written,) = write(model_of(server), want=want, on_text=pieces.append)
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
        ([1], ModelFailure, "all of it is"),
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
    def on_text(text):
        raise BrokenPipeError("nobody reads")

    with pytest.raises(BrokenPipeError, match="nobody reads"):
        write(model_of(server), on_text=on_text)


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


def test_an_answer_ends_with_its_last_event_also_where_the_connection_stays_open():
    has_answer = threading.Event()

    def answer(listening):
        connection, _ = listening.accept()
        with connection:
            events = f"data: {json.dumps(event(' It', finish='length'))}\n\ndata: [DONE]\n\n"
            connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{events}".encode())
            has_answer.wait()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = threading.Thread(target=answer, args=(listening,), daemon=True)
        answering.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        (written,) = write(load_model(f"openai:tiny@{url}?{ALL}&timeout=5&attempts=1"))
        has_answer.set()
        answering.join()
    assert written.text == " It"
