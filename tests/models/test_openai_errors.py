"""Test servers that are busy or broken, and those whose responses are wrong, endless or hostile."""

import asyncio
import json
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest
from tests.models.scripted_server import Fault, ScriptedServer
from tests.models.served import ALL, CHAT, KEY, RAW, event, logprobs_of, model_of, texts, write

from askance.ask import Engine
from askance.configuration.build import load_model
from askance.core.errors import (
    AskanceError,
    ModelFailure,
    ModelSpecError,
    ModelUnavailable,
    PromptTooLong,
    RequestRefused,
)
from askance.core.types import GenerateRequest, Question, Sampling, Want
from askance.methods.baselines import ClosedBook
from askance.middleware.retry import RetryingModel, RetryPolicy
from askance.models.openai import connection
from askance.models.openai.errors import retry_after_seconds
from askance.models.openai.events import MAX_TOKENS, ReportedUsage, read_event
from askance.models.scripted import ScriptedModel
from askance.storage.trace_file import read_trace, trace_text, write_file

HUGE, DIGITS = 10**400, "9" * 5000
"""A number that exceeds the range of floats, and one with more digits than Python parses."""
LIES = [HUGE, -HUGE, -1, True, 2.5, "7", None, [], {}, MAX_TOKENS + 1, float("inf"), float("nan")]
PAGE = "<!DOCTYPE html>\n<html><body>The context length of this page: too many tokens</body></html>"
DEEP = ["[" * 100_000, '{"a":' * 100_000]


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(lambda shown, key: " It is Bonn. So")) as server:
        yield server


def error(message, **more):
    return {"error": {"message": message, **more}}


def shown(lie):
    return repr(lie)[:20]


def count(server, prompt=RAW, tokenize="vllm"):
    return asyncio.run(model_of(server, f"{ALL}&tokenize={tokenize}").count(prompt))


BUSY = [
    (
        Fault(429, headers={"Retry-After": "0"}, body=error("Slow down.", code="rate_limit")),
        "tiny.*the server at http://127.0.0.1:.*answered 429: Slow down. Ask fewer questions at a",
    ),
    (Fault(500, body="<html>oops</html>"), "answered 500: <html>oops</html>. See the log of the server"),
    (Fault(503, body={"error": "loading"}), "answered 503: loading"),
    (
        Fault(events=[event(" It")], ends="cut"),
        r"or cut the connection \(.+\): check that it runs .* see its log. Some .* a prompt does not fit",
    ),
    (
        Fault(body='{"choices": [', headers={"Content-Length": "1000"}, ends="cut"),
        "cut the connection",
    ),
    (
        Fault(events=[event(" It")], ends="silent"),
        "broke off its answer in the middle. If it handles one request at a time, send it one",
    ),
    (Fault(events=[event(" It"), error("Overloaded", code=503)]), "broke off its answer: Overloaded"),
    (Fault(body=error("Overloaded")), "broke off its answer: Overloaded"),
    (
        Fault(seconds=1.5, events=[event(" late", finish="stop")]),
        r"did not answer in time: give it more time \(\?timeout=SECONDS",
    ),
]


@pytest.mark.parametrize(("fault", "expected"), BUSY)
def test_what_may_pass_is_tried_again(server, fault, expected):
    server.faults += [fault, fault]
    model, pieces = model_of(server, f"{ALL}&timeout=1"), []
    with pytest.raises(ModelUnavailable, match=expected + r".*\(tried once\)$"):
        write(model)
    (written,) = write(RetryingModel(model, RetryPolicy(2, first_seconds=0.0)), on_text=pieces.append)
    assert written.text == "".join(pieces) == " It is Bonn. So"
    assert len(server.requests) == 3


def test_nobody_there():
    with ScriptedServer() as server:
        model = model_of(server)
    with pytest.raises(ModelUnavailable, match="can't be reached"):
        write(model)


FINAL = [
    (Fault(400, body=error("logprobs is not allowed")), RequestRefused, "400: logprobs is not"),
    (Fault(401, body=error("no")), ModelSpecError, "401: no. Set OPENAI_API_KEY"),
    (Fault(404, body=error("no model")), ModelSpecError, "404: no model. Check the name"),
    (
        Fault(429, body=error("pay", code="insufficient_quota")),
        ModelSpecError,
        "429: pay. Check that the account of the key has money left",
    ),
    (Fault(402, body=error("pay")), ModelSpecError, "402: pay. Check that the account"),
    (Fault(501, body=error("no echo")), RequestRefused, "501: no echo. Remove the options that"),
    (Fault(events=["{oops"]), ModelFailure, "gave no JSON"),
    (Fault(body="{oops"), ModelFailure, "gave no JSON"),
    (Fault(body="event: hello\nid: 1\n\nwelcome\n"), ModelFailure, "gave no JSON: 'event: hello"),
    (
        Fault(events=[event(" a"), '{"choices": [], "usage": {"prompt_tokens": ' + DIGITS + "}}"]),
        ModelFailure,
        "gave no JSON",
    ),
    (Fault(events=[[1]]), ModelFailure, "gave an event that can't be read: all of it is"),
    (Fault(body=[1]), ModelFailure, "gave an event that can't be read: all of it is"),
    (Fault(events=[]), ModelFailure, "an answer without a choice"),
    (Fault(body={"choices": []}), ModelFailure, "an answer without a choice"),
    (Fault(events=[event("a", finish="content_filter")]), ModelFailure, "content filter"),
    (Fault(events=[error("bad grammar")]), ModelFailure, "broke off its answer: bad grammar"),
    (Fault(body={"error": "bad grammar"}), ModelFailure, "broke off its answer: bad grammar"),
    (
        Fault(400, body=error("maximum context length is 8", code="context_length_exceeded")),
        PromptTooLong,
        "do not fit into the context window of tiny.*: maximum context length is 8. Shorten",
    ),
    (Fault(events=[error("context size exceeded")]), PromptTooLong, "context size exceeded"),
    (
        Fault(body=PAGE, headers={"Content-Type": "text/html"}),
        ModelSpecError,
        "gave a web page .*check that the URL ends as the server's own",
    ),
    (
        Fault(headers={"Content-Encoding": "gzip"}, body="bomb"),
        ModelFailure,
        r"a compressed answer \(gzip\), which was not asked for",
    ),
    # A compressed body, which may have any size, is not read.
    (
        Fault(307, headers={"Location": "/v1/again", "Content-Encoding": "gzip"}, body="this is no gzip"),
        ModelSpecError,
        r"redirects to .*/v1/again",
    ),
    *(
        (fault, ModelFailure, "gave no JSON")
        for deep in DEEP
        for fault in (Fault(body=deep), Fault(events=[deep]))
    ),
    *((Fault(400, body=deep), RequestRefused, "answered 400") for deep in DEEP),
]


@pytest.mark.parametrize(("fault", "error", "expected"), FINAL)
def test_what_stays_wrong_is_not_tried_again(server, fault, error, expected):
    server.faults.append(fault)
    with pytest.raises(error, match=expected) as raised:
        write(model_of(server, attempts=4))
    assert type(raised.value) is error
    assert len(server.requests) == 1
    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("status", [400, 413, 422, 500, 502])
def test_a_web_page_is_no_prompt_that_is_too_long(server, status):
    server.faults.append(Fault(status, body=PAGE, headers={"Content-Type": "text/html"}))
    with pytest.raises(AskanceError, match=f"answered {status}: <!DOCTYPE html>") as raised:
        write(model_of(server))
    assert not isinstance(raised.value, PromptTooLong)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([event(" It"), event(finish="stop")], "gave no log-probabilities: see its log, and what it can do"),
        ([event(" It", logprobs_of(" It")), event(finish="stop")], "no alternatives to the token ' It'"),
        (
            [event(" It", logprobs_of(" He", top=[{" He": -0.5}]))],
            "of the token ' He' where its text has ' It'",
        ),
        (
            [event(" It", logprobs_of(" It", top=[{" It": -0.1, " He": -0.1}]))],
            "probabilities that sum to 1.81",
        ),
        (
            [event(" It is", logprobs_of(" It", " is") | {"token_logprobs": [-0.5]})],
            "log-probabilities that can't be read",
        ),
        *(
            ([event(" It", logprobs_of(" It", logprob=lie))], r"logprobs\.0 is|no JSON")
            for lie in (HUGE, -HUGE, 3.0, float("-inf"), float("nan"), True, "-1")
        ),
    ],
)
def test_log_probabilities_that_are_wrong(server, events, expected):
    server.faults.append(Fault(events=events))
    with pytest.raises(ModelFailure, match=expected):
        write(model_of(server, attempts=3), want=Want(logprob=True, entropy=True))
    assert len(server.requests) == 1


PLACES = ["logprob", "top", "bytes", "index", "finish", "tokens", "text"]
ANYTHING = [*LIES, 1.0, 300, 10**10, -(10**10), [HUGE], [-1], [256], {"a": HUGE}, "x", [[]], {"tokens": [1]}]


def lying(place, lie):
    """Return a chat event with one wrong value."""
    entry = {"token": "Bonn", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    entry |= {"logprob": {"logprob": lie}, "bytes": {"bytes": lie}}.get(place, {})
    entry |= {"top_logprobs": [{"token": "Bonn", "logprob": lie}]} if place == "top" else {}
    choice = {"index": 0, "delta": {"content": "Bonn"}, "finish_reason": "stop"}
    choice |= {"logprobs": {"content": [entry]}}
    choice |= {"index": {"index": lie}, "finish": {"finish_reason": lie}}.get(place, {})
    choice |= {"tokens": {"logprobs": lie}, "text": {"delta": {"content": lie}}}.get(place, {})
    return {"choices": [choice]}


@pytest.mark.parametrize("place", PLACES)
def test_a_lie_at_any_place_is_our_error_or_no_harm(server, place):
    model = model_of(server, "top_logprobs=5")
    for lie in ANYTHING:
        server.faults.append(Fault(events=[lying(place, lie), event(finish="stop")]))
        with suppress(ModelFailure):
            (written,) = write(model, CHAT, want=Want(logprob=True))
            assert written.text in ("Bonn", "x", "7", "")
            assert all(-1e6 <= token.logprob <= 0 for token in written.tokens)


def test_a_token_of_ten_gigabytes_is_not_made(server):
    server.faults.append(Fault(events=[lying("bytes", 10**10)]))
    with pytest.raises(ModelFailure, match=r"logprobs\.content\.0\.bytes is 10000000000"):
        write(model_of(server, "top_logprobs=5"), CHAT, want=Want(logprob=True))


def usage_of(**usage):
    return read_event({"choices": [], "usage": usage}).usage


@pytest.mark.parametrize("lie", LIES, ids=shown)
def test_a_number_of_tokens_that_can_be_none_is_not_believed(lie):
    assert usage_of(prompt_tokens=lie) is None
    assert usage_of(prompt_tokens=7, prompt_tokens_details={"cached_tokens": lie}) == ReportedUsage(7, 0)


def test_a_number_of_tokens_that_can_be_is_believed():
    assert usage_of(prompt_tokens=0) == ReportedUsage(0, 0)
    assert usage_of(prompt_tokens=9, prompt_tokens_details={"cached_tokens": 9}) == ReportedUsage(9, 9)
    assert usage_of(prompt_tokens=9, prompt_tokens_details={"cached_tokens": 10}) == ReportedUsage(9, 0)


def test_a_count_that_is_a_lie_is_made_here(server, tmp_path):
    """A trace with such a count can be written, read and summed."""
    for lie in (HUGE, -5, True):
        usage = {"choices": [], "usage": {"prompt_tokens": lie}}
        server.faults.append(Fault(events=[event(" Bonn.", finish="stop"), usage]))
    model = model_of(server, "completions=1&chat=0")
    for number in range(3):
        result = Engine(ClosedBook(), {"answer": model}).ask(Question(str(number), "Where?"))
        generated = next(entry for entry in result.trace.events if entry.type == "generate")
        assert 0 < generated.prompt_tokens <= result.usage.prompt_tokens < 10_000
        write_file(tmp_path / "trace.jsonl", trace_text(result.trace))
        assert read_trace(tmp_path / "trace.jsonl")


NO_COUNT = "gave no count of tokens"


@pytest.mark.parametrize(
    ("fault", "error", "expected"),
    [
        (Fault(body={"length": 3}), ModelFailure, NO_COUNT),
        (Fault(body=[3]), ModelFailure, NO_COUNT),
        (Fault(body='{"count": ' + DIGITS + "}"), ModelFailure, "no JSON"),
        (Fault(body=DEEP[0]), ModelFailure, "no JSON"),
        (Fault(404, body={"detail": "Not Found"}), ModelSpecError, "answered 404: Not Found"),
    ],
)
def test_counts_that_can_not_be_read(server, fault, error, expected):
    server.faults.append(fault)
    with pytest.raises(error, match=expected):
        count(server)


@pytest.mark.parametrize("tokenize", ["vllm", "llama.cpp", "llama-cpp-python"])
def test_a_lie_about_a_count(server, tokenize):
    for lie in (HUGE, -1, True, 1.5, "7", None):
        server.faults.append(Fault(body={"count": lie, "tokens": lie}))
        with pytest.raises(ModelFailure, match=NO_COUNT):
            count(server, tokenize=tokenize)
    server.faults.append(Fault(body={"prompt": HUGE}))
    if tokenize == "llama.cpp":
        with pytest.raises(ModelFailure, match="gave no prompt"):
            count(server, CHAT, tokenize)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("7", 7.0), ("-5", 0.0), ("nan", None), ("inf", None), ("9" * 400, None), ("soon", None), ("", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
    ],
)  # fmt: skip
def test_a_time_to_wait_may_be_none(said, expected):
    assert retry_after_seconds({"retry-after": said}) == expected
    assert retry_after_seconds({}) is None


def test_halves_of_a_character_are_no_text(server):
    server.faults.append(Fault(events=[event("a\ud83d"), event("\ude00", finish="stop")]))
    assert write(model_of(server))[0].text == "a\ufffd\ufffd"


THOUGHT = {"choices": [{"index": 0, "delta": {"reasoning_content": "x" * 100_000}}]}


@pytest.mark.parametrize(
    ("limit", "fault", "expected"),
    [
        ("MAX_RESPONSE_BYTES", Fault(events=[THOUGHT] * 100), "an answer of more than 3 MiB"),
        ("MAX_EVENT_BYTES", Fault(body=[0] * 2_000_000), "an event of more than 3 MiB"),
        ("MAX_EVENT_BYTES", Fault(events=[[0] * 2_000_000]), "an event of more than 3 MiB"),
    ],
)
def test_answers_and_events_without_end(server, monkeypatch, limit, fault, expected):
    monkeypatch.setattr(connection, limit, 3 << 20)
    server.faults.append(fault)
    with pytest.raises(ModelFailure, match=expected):
        write(model_of(server), CHAT)


@pytest.mark.parametrize("status", [400, 500])
def test_of_an_error_without_end_the_beginning_is_read(server, status):
    body = "It is broken. " + "x" * (30 << 20)
    server.faults += [Fault(status, body=body), Fault(status, body=body)]
    with pytest.raises(ModelFailure, match=rf"answered {status}: It is broken. x{{200,300}}… ?"):
        write(model_of(server))
    with pytest.raises(ModelFailure, match=f"answered {status}: It is broken"):
        count(server)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server_is_not_followed(server, monkeypatch, status):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ScriptedServer() as other:
        server.faults += [Fault(status, headers={"Location": f"{other.url}/completions"}, body="")] * 2
        told = f"redirects to {other.url}/comp.*, where prompt and key"
        with pytest.raises(ModelSpecError, match=told) as raised:
            write(model_of(server))
        with pytest.raises(ModelSpecError, match="redirects to"):
            count(server)
        assert other.requests == []
        assert KEY not in str(raised.value)


def test_the_window_of_a_server_and_the_one_declared(server):
    small = ScriptedModel(context_tokens=10)
    with ScriptedServer(small) as tight, pytest.raises(PromptTooLong, match="context window of 10"):
        write(model_of(tight), max_tokens=9)
    with pytest.raises(PromptTooLong, match="1 or more tokens, 20 to write, and the window has 20"):
        write(model_of(server, ALL + "&context=20"))


def test_a_server_that_does_not_stream_although_it_is_asked_to(server):
    pieces, want, tokens = [], Want(logprob=True, entropy=True), [" It", " is", " Bonn.", " So"]
    logprobs = logprobs_of(*tokens, top=[{token: -0.5} for token in tokens])
    whole = event("".join(tokens), logprobs, "stop") | {"usage": {"prompt_tokens": 9}}
    server.faults.append(Fault(body=whole))
    (written,) = write(model_of(server), want=want, on_text=pieces.append)
    assert (written.text, written.finish, written.prompt_tokens) == (" It is Bonn. So", "end", 9)
    assert texts(written) == pieces == tokens
    assert [token.logprob for token in written.tokens] == [-0.5] * 4
    (streamed,) = write(model_of(server), RAW)
    assert streamed.text == written.text, "the connection is as good as it was"


def test_an_error_behind_a_text_that_was_cut_does_not_count(server):
    server.faults.append(Fault(events=[event(" It\n"), error("Overloaded")]))
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
    requests = [GenerateRequest(RAW, Sampling(9), key=(number,)) for number in range(num_requests)]

    async def twice():
        for _ in range(2):
            await asyncio.gather(*map(model.generate, requests))

    asyncio.run(twice())
    assert len(server.requests) == 2 * num_requests
    assert server.num_connections == num_requests


@contextmanager
def raw_server(send):
    """Run a server that calls `send` with its first connection; yield the options of a model on it."""

    def answer(listening):
        accepted, _ = listening.accept()
        with accepted, suppress(OSError):
            send(accepted)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = threading.Thread(target=answer, args=(listening,), daemon=True)
        answering.start()
        yield f"openai:tiny@http://127.0.0.1:{listening.getsockname()[1]}/v1?{ALL}&attempts=1"
        answering.join()


def test_an_answer_ends_with_its_last_event_also_where_the_connection_stays_open():
    has_answer = threading.Event()

    def send(accepted):
        events = f"data: {json.dumps(event(' It', finish='length'))}\n\ndata: [DONE]\n\n"
        accepted.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{events}".encode())
        has_answer.wait()

    with raw_server(send) as spec:
        (written,) = write(load_model(f"{spec}&timeout=5"))
        has_answer.set()
    assert written.text == " It"


def test_a_count_that_comes_drop_by_drop_takes_no_longer_than_a_request_may():
    """Every byte arrives in time, but the response never ends."""

    def send(accepted):
        accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            accepted.sendall(b" ")
            time.sleep(0.02)

    with raw_server(send) as spec:
        model = load_model(f"{spec}&tokenize=vllm&timeout=0.5")
        with pytest.raises(ModelUnavailable, match="did not answer in time"):
            asyncio.run(model.count(RAW))
