"""Test servers that are busy or broken, and those whose responses are wrong, endless or hostile."""

import asyncio
from contextlib import suppress

import pytest
from tests.models.scripted_server import Fault, ScriptedServer
from tests.models.served import ALL, CHAT, KEY, RAW, event, logprobs_of, model_of, texts, write

from askance.ask import Engine
from askance.core.errors import (
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

TEXT = " It is Bonn. So"
HUGE, DIGITS = 10**400, "9" * 5000
"""A number that exceeds the range of floats, and one with more digits than Python parses."""
LIES = [HUGE, -HUGE, -1, True, 2.5, "7", None, [], {}, MAX_TOKENS + 1, float("inf"), float("nan")]
HTML, GZIP = {"Content-Type": "text/html"}, {"Content-Encoding": "gzip"}
PAGE = "<!DOCTYPE html>\n<html><body>The context length of this page: too many tokens</body></html>"
ENDLESS = "It is broken. " + "x" * (30 << 20)
DEEP = ["[" * 100_000, '{"a":' * 100_000]
THOUGHTS = Fault(events=[{"choices": [{"index": 0, "delta": {"reasoning_content": "x" * 100_000}}]}] * 100)
BOTH = Want(logprob=True, entropy=True)


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(lambda shown, key: TEXT)) as server:
        yield server


def error(message, **more):
    return {"error": {"message": message, **more}}


def streamed(*events, **more):
    return Fault(events=events, **more)


def count(server, prompt=RAW, tokenize="vllm", options=""):
    return asyncio.run(model_of(server, f"{ALL}&tokenize={tokenize}{options}").count(prompt))


FAULTS = {
    # What may pass is tried again.
    ModelUnavailable: [
        (
            Fault(429, {"Retry-After": "0"}, error("Slow down.", code="rate_limit")),
            "tiny.*the server at http://127.0.0.1:.*answered 429: Slow down. Ask fewer questions at a",
        ),
        (Fault(500, body="<html>oops</html>"), "answered 500: <html>oops</html>. See the log of the server"),
        (Fault(503, body={"error": "loading"}), "answered 503: loading"),
        (Fault(500, HTML, PAGE), "answered 500: <!DOCTYPE html>"),
        (Fault(500, body=ENDLESS), r"answered 500: It is broken. x{200,300}…"),
        (
            streamed(event(" It"), ends="cut"),
            r"cut the connection \(.+\): check that it runs .* does not fit",
        ),
        (Fault(body="{", headers={"Content-Length": "1000"}, ends="cut"), "cut the connection"),
        (streamed(event(" It"), ends="silent"), "in the middle. If it handles one request at a time, send"),
        (streamed(event(" It"), error("Overloaded", code=503)), "broke off its answer: Overloaded"),
        (Fault(body=error("Overloaded")), "broke off its answer: Overloaded"),
        (streamed(event(finish="stop"), seconds=1.5), r"did not answer in time: .*\(\?timeout=SECONDS"),
    ],
    RequestRefused: [
        (Fault(400, body=error("logprobs is not allowed")), "400: logprobs is not"),
        (Fault(501, body=error("no echo")), "501: no echo. Remove the options that"),
        (Fault(400, HTML, PAGE), "answered 400: <!DOCTYPE html>"),
        (Fault(413, HTML, PAGE), "answered 413: <!DOCTYPE html>"),
        (Fault(400, body=ENDLESS), r"answered 400: It is broken. x{200,300}…"),
        *((Fault(400, body=deep), "answered 400") for deep in DEEP),
    ],
    ModelSpecError: [
        (Fault(401, body=error("no")), "401: no. Set OPENAI_API_KEY"),
        (Fault(401, {"Content-Length": "1000"}, "{", ends="cut"), "answered 401: {. Set OPENAI_API_KEY"),
        (Fault(404, body=error("no model")), "404: no model. Check the name"),
        (Fault(402, body=error("pay")), "402: pay. Check that the account of the key has money left"),
        (Fault(429, body=error("pay", code="insufficient_quota")), "429: pay. Check that the account"),
        (Fault(headers=HTML, body=PAGE), "a web page .*check that the URL ends as the server's own"),
        # A compressed body, which may have any size, is not read.
        (Fault(307, {"Location": "/again"} | GZIP, "this is no gzip"), r"redirects to .*/again"),
    ],
    PromptTooLong: [
        (
            Fault(400, body=error("maximum context length is 8", code="context_length_exceeded")),
            "do not fit into the context window of tiny.*: maximum context length is 8. Shorten",
        ),
        (streamed(error("context size exceeded")), "context size exceeded"),
    ],
    ModelFailure: [
        (streamed("{oops"), "gave no JSON"),
        (Fault(body="event: hello\nid: 1\n\nwelcome\n"), "gave no JSON: 'event: hello"),
        (streamed(event(" a"), f'{{"usage": {{"prompt_tokens": {DIGITS}}}}}'), "gave no JSON"),
        *((Fault(body=deep), "gave no JSON") for deep in DEEP),
        *((streamed(deep), "gave no JSON") for deep in DEEP),
        (streamed([1]), "gave an event that can't be read: all of it is"),
        (Fault(body=[1]), "gave an event that can't be read: all of it is"),
        (streamed(), "an answer without a choice"),
        (Fault(body={"choices": []}), "an answer without a choice"),
        (streamed(event("a", finish="content_filter")), "content filter"),
        (streamed(error("bad grammar")), "broke off its answer: bad grammar"),
        (Fault(body={"error": "bad grammar"}), "broke off its answer: bad grammar"),
        (Fault(headers=GZIP, body="bomb"), r"a compressed answer \(gzip\), which was not asked for"),
    ],
}


@pytest.mark.parametrize(
    ("kind", "fault", "message"), [(kind, *row) for kind, rows in FAULTS.items() for row in rows]
)
def test_a_fault_is_an_error_and_only_what_may_pass_is_tried_again(server, kind, fault, message):
    may_pass, options = kind is ModelUnavailable, f"{ALL}&timeout={1 if fault.seconds else 60}"
    server.faults.append(fault)
    with pytest.raises(kind, match=message + (r".*\(tried once\)$" if may_pass else "")) as raised:
        write(model_of(server, options, attempts=1 if may_pass else 4))
    assert type(raised.value) is kind
    assert [request.headers["accept-encoding"] for request in server.requests] == ["identity"]
    if may_pass:
        server.faults.append(fault)
        retrying, pieces = RetryingModel(model_of(server, options), RetryPolicy(2, 0.0)), []
        (written,) = write(retrying, on_text=pieces.append)
        assert written.text == "".join(pieces) == TEXT
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([event(" It")], "gave no log-probabilities: see its log, and what it can do"),
        ([event(" It", logprobs_of(" It"))], "no alternatives to the token ' It'"),
        ([event(" It", logprobs_of(" He", top=[{" He": -0.5}]))], "token ' He' where its text has ' It'"),
        ([event(" It", logprobs_of(" It", top=[{" It": -0.1, " He": -0.1}]))], "that sum to 1.81"),
        ([event(" a b", logprobs_of(" a", " b") | {"token_logprobs": [-0.5]})], "that can't be read"),
        ([event(" a" * 4097, logprobs_of(*[" a"] * 4097))], "at most 4096 items"),
        *(
            ([event(" It", logprobs_of(" It", logprob=lie))], r"logprobs\.0 is|no JSON")
            for lie in (HUGE, -HUGE, 3.0, float("-inf"), float("nan"), True, "-1")
        ),
    ],
)  # fmt: skip
def test_log_probabilities_that_are_wrong(server, events, message):
    server.faults.append(streamed(*events, event(finish="stop")))
    with pytest.raises(ModelFailure, match=message):
        write(model_of(server, attempts=3), want=BOTH)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("limit", "fault", "message"),
    [
        ("MAX_RESPONSE_BYTES", THOUGHTS, "an answer of more than 3 MiB"),
        ("MAX_EVENT_BYTES", Fault(body=[0] * 2_000_000), "an event of more than 3 MiB"),
        ("MAX_EVENT_BYTES", streamed([0] * 2_000_000), "an event of more than 3 MiB"),
    ],
)
def test_answers_and_events_without_end(server, monkeypatch, limit, fault, message):
    monkeypatch.setattr(connection, limit, 3 << 20)
    server.faults.append(fault)
    with pytest.raises(ModelFailure, match=message):
        write(model_of(server), CHAT)


NO_COUNT = "gave no count of tokens"


@pytest.mark.parametrize(
    ("fault", "tokenize", "prompt", "kind", "message"),
    [
        (Fault(body={"length": 3}), "vllm", RAW, ModelFailure, NO_COUNT),
        (Fault(body=[3]), "vllm", RAW, ModelFailure, NO_COUNT),
        (Fault(body=f'{{"count": {DIGITS}}}'), "vllm", RAW, ModelFailure, "no JSON"),
        (Fault(404, body={"detail": "Not Found"}), "vllm", RAW, ModelSpecError, "answered 404: Not Found"),
        (Fault(body={"prompt": HUGE}), "llama.cpp", CHAT, ModelFailure, "gave no prompt"),
        *(
            (Fault(body={"count": lie, "tokens": lie}), tokenize, RAW, ModelFailure, NO_COUNT)
            for lie in (HUGE, -1, True, 1.5, "7", None)
            for tokenize in ("vllm", "llama.cpp", "llama-cpp-python")
        ),
    ],
)
def test_counts_that_can_not_be_read(server, fault, tokenize, prompt, kind, message):
    server.faults.append(fault)
    with pytest.raises(kind, match=message):
        count(server, prompt, tokenize)


def lying(place, lie):
    """Return a chat event with one wrong value."""
    entry = {"token": "Bonn", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    choice = {"index": 0, "delta": {"content": "Bonn"}, "finish_reason": "stop"}
    choice["logprobs"] = {"content": [entry]}
    places = {"logprob": entry, "bytes": entry, "content": choice["delta"]}
    places.get(place, choice)[place] = [{"token": "Bonn", "logprob": lie}] if place == "top_logprobs" else lie
    return {"choices": [choice]}


@pytest.mark.parametrize(
    "place", ["logprob", "top_logprobs", "bytes", "index", "finish_reason", "logprobs", "content"]
)
def test_a_lie_at_any_place_is_an_error_or_does_no_harm(server, place):
    model = model_of(server, "top_logprobs=5")
    for lie in [*LIES, 1.0, 300, 10**10, [HUGE], [-1], [256], {"a": HUGE}, "x", [[]], {"tokens": [1]}]:
        server.faults.append(streamed(lying(place, lie), event(finish="stop")))
        with suppress(ModelFailure):
            (written,) = write(model, CHAT, want=Want(logprob=True))
            assert written.text in ("Bonn", "x", "7", "")
            assert all(-1e6 <= token.logprob <= 0 for token in written.tokens)
    server.faults.append(streamed(lying("bytes", 10**10)))  # It would be a token of ten gigabytes.
    with pytest.raises(ModelFailure, match=r"logprobs\.content\.0\.bytes is 10000000000"):
        write(model, CHAT, want=Want(logprob=True))


def test_token_counts_are_believed_if_they_can_be_true(server, tmp_path):
    """A trace with a count that is a lie can be written, read and summed."""

    def usage(prompt_tokens, cached=None):
        reported = {"prompt_tokens": prompt_tokens, "prompt_tokens_details": {"cached_tokens": cached}}
        return {"choices": [], "usage": reported}

    for lie in LIES:
        assert read_event(usage(lie)).usage is None
        assert read_event(usage(7, lie)).usage == ReportedUsage(7, 0)
    for prompt_tokens, cached, believed in ((0, None, 0), (9, 9, 9), (9, 10, 0)):
        assert read_event(usage(prompt_tokens, cached)).usage == ReportedUsage(prompt_tokens, believed)
    model = model_of(server, "completions=1&chat=0")
    server.faults.append(streamed(event(" Bonn.", finish="stop"), usage(HUGE)))
    result = Engine(ClosedBook(), {"answer": model}).ask(Question("1", "Where?"))
    generated = next(entry for entry in result.trace.events if entry.type == "generate")
    assert 0 < generated.prompt_tokens <= result.usage.prompt_tokens < 10_000
    write_file(tmp_path / "trace.jsonl", trace_text(result.trace))
    assert read_trace(tmp_path / "trace.jsonl")


def test_a_time_to_wait_may_be_none():
    seconds = {"7": 7.0, "-5": 0.0} | dict.fromkeys(["nan", "inf", "9" * 400, "soon", "", "Thu, 01 Jan"])
    assert {text: retry_after_seconds({"retry-after": text}) for text in seconds} == seconds
    assert retry_after_seconds({}) is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server_is_not_followed(server, monkeypatch, status):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ScriptedServer() as other:
        server.faults += [Fault(status, {"Location": f"{other.url}/completions"}, "")] * 2
        message = f"redirects to {other.url}/comp.*, where prompt and key"
        with pytest.raises(ModelSpecError, match=message) as raised:
            write(model_of(server))
        with pytest.raises(ModelSpecError, match="redirects to"):
            count(server)
        assert other.requests == []
        assert KEY not in str(raised.value)


def test_a_server_that_does_not_stream_although_it_is_asked_to(server):
    pieces, tokens = [], [" It", " is", " Bonn.", " So"]
    logprobs = logprobs_of(*tokens, top=[{token: -0.5} for token in tokens])
    server.faults.append(Fault(body=event(TEXT, logprobs, "stop") | {"usage": {"prompt_tokens": 9}}))
    (written,) = write(model_of(server), want=BOTH, on_text=pieces.append)
    assert (written.text, written.finish, written.prompt_tokens) == (TEXT, "end", 9)
    assert texts(written) == pieces == tokens
    assert [token.logprob for token in written.tokens] == [-0.5] * 4


def test_texts_that_are_odd_but_no_error(server):
    server.faults += [
        streamed(event("a\ud83d"), event("\ude00", finish="stop")),
        streamed(event(" It\n"), error("Overloaded")),
    ]
    assert write(model_of(server))[0].text == "a\ufffd\ufffd", "halves of a character are no text"
    (written,) = write(model_of(server), stop=("\n",))
    assert (written.text, written.finish) == (" It", "stop"), "an error after the cut does not count"
    with pytest.raises(ZeroDivisionError):  # It is no error of the server.
        write(model_of(server), on_text=lambda text: 1 // 0)


def test_connections_are_used_again(server):
    model = model_of(server, f"{ALL}&in_flight=30")
    requests = [GenerateRequest(RAW, Sampling(9), key=(number,)) for number in range(30)]

    async def twice():
        for _ in range(2):
            await asyncio.gather(*map(model.generate, requests))

    asyncio.run(twice())
    assert (len(server.requests), server.num_connections) == (60, 30)


def test_only_a_connection_that_is_reused_may_be_gone(server):
    model, request = model_of(server), GenerateRequest(RAW, Sampling(3), key=("k",))

    async def twice():
        await model.generate(request)
        server.faults.append(Fault(ends="gone"))
        await model.generate(request)

    asyncio.run(twice())
    assert (len(server.requests), server.num_connections) == (3, 2)
    server.faults.append(Fault(ends="gone"))
    with pytest.raises(ModelUnavailable, match="cut the connection"):
        write(model)
    assert len(server.requests) == 4


def test_responses_that_never_end(server):
    """An answer ends with its last event, and a count takes no longer than a request may."""
    endless = Fault(body="", headers={"Content-Length": "100000"}, ends="drips")
    server.faults += [streamed(event(" It", finish="length"), ends="open"), endless]
    assert write(model_of(server, f"{ALL}&timeout=30"))[0].text == " It"
    with pytest.raises(ModelUnavailable, match="did not answer in time"):
        count(server, options="&timeout=0.5")


def test_a_server_with_a_small_window_and_one_that_is_gone():
    with ScriptedServer(ScriptedModel(context_tokens=10)) as server:
        model = model_of(server)
        with pytest.raises(PromptTooLong, match="in a window of 10"):
            write(model, max_tokens=9)
    with pytest.raises(ModelUnavailable, match="can't be reached"):
        write(model)
