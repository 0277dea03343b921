"""Test that wrong numbers, endless responses and redirects neither break askance nor mislead it."""

import asyncio
import socket
import threading
import time
from contextlib import suppress

import pytest
from benchmarks.scripted_server import Fault, ScriptedServer
from tests.models.served import ALL, CHAT, KEY, RAW, event, logprobs_of, model_of, write

from askance.ask import Engine
from askance.configuration.build import load_model
from askance.core.errors import AskanceError, ModelFailure, ModelSpecError, ModelUnavailable, PromptTooLong
from askance.core.types import Question, Want
from askance.methods.baselines import ClosedBook
from askance.models.openai import connection
from askance.models.openai.errors import retry_after_seconds
from askance.models.openai.events import MAX_TOKENS, ReportedUsage, read_event
from askance.models.scripted import ScriptedModel
from askance.storage.trace_file import read_trace, trace_text, write_file

HUGE, DIGITS = 10**400, "9" * 5000
"""A number that exceeds the range of floats, and one with more digits than Python parses."""
LIES = [HUGE, -HUGE, -1, True, 2.5, "7", None, [], {}, MAX_TOKENS + 1, float("inf"), float("nan")]


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(lambda shown, key: " It is Bonn. So")) as server:
        yield server


def shown(lie):
    return repr(lie)[:20]


def ending(**usage):
    return {"choices": [], "usage": usage}


def usage_of(**usage):
    return read_event(ending(**usage)).usage


@pytest.mark.parametrize("lie", LIES, ids=shown)
def test_a_number_of_tokens_that_can_be_none_is_not_believed(lie):
    assert usage_of(prompt_tokens=lie) is None
    assert usage_of(prompt_tokens=7, prompt_tokens_details={"cached_tokens": lie}) == ReportedUsage(7, 0)


def test_what_can_be_is_believed():
    assert usage_of(prompt_tokens=0) == ReportedUsage(0, 0)
    assert usage_of(prompt_tokens=9, prompt_tokens_details={"cached_tokens": 9}) == ReportedUsage(9, 9)
    assert usage_of(prompt_tokens=9, prompt_tokens_details={"cached_tokens": 10}) == ReportedUsage(9, 0)


def test_a_count_that_is_a_lie_is_made_here(server, tmp_path):
    """A trace with such a count can be written, read and summed."""
    for lie in (HUGE, -5, True):
        server.faults.append(Fault(events=[event(" Bonn.", finish="stop"), ending(prompt_tokens=lie)]))
    model = model_of(server, "completions=1&chat=0")
    for number in range(3):
        result = Engine(ClosedBook(), {"answer": model}).ask(Question(str(number), "Where?"))
        generated = next(entry for entry in result.trace.events if entry.type == "generate")
        assert 0 < generated.prompt_tokens <= result.usage.prompt_tokens < 10_000
        write_file(tmp_path / "trace.jsonl", trace_text(result.trace))
        assert read_trace(tmp_path / "trace.jsonl")


def test_more_digits_than_python_reads(server):
    usage = '{"choices": [], "usage": {"prompt_tokens": ' + DIGITS + "}}"
    server.faults.append(Fault(events=[event(" Bonn.", finish="stop"), usage]))
    with pytest.raises(ModelFailure, match="no JSON"):
        write(model_of(server))
    server.faults.append(Fault(body='{"count": ' + DIGITS + "}"))
    with pytest.raises(ModelFailure, match="no JSON"):
        asyncio.run(model_of(server, ALL + "&tokenize=vllm").count(RAW))


@pytest.mark.parametrize("lie", [HUGE, -1, True, 1.5, "7", None], ids=shown)
@pytest.mark.parametrize("tokenize", ["vllm", "llama.cpp", "llama-cpp-python"])
def test_a_lie_about_a_count(server, tokenize, lie):
    server.faults.append(Fault(body={"count": lie, "tokens": lie}))
    with pytest.raises(ModelFailure, match="no count of tokens"):
        asyncio.run(model_of(server, f"{ALL}&tokenize={tokenize}").count(RAW))


def test_a_prompt_that_is_none(server):
    server.faults.append(Fault(body={"prompt": HUGE}))
    with pytest.raises(ModelFailure, match="gave no prompt"):
        asyncio.run(model_of(server, f"{ALL}&tokenize=llama.cpp").count(CHAT))


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
@pytest.mark.parametrize("lie", ANYTHING, ids=shown)
def test_a_lie_at_any_place_is_our_error_or_no_harm(server, place, lie):
    server.faults.append(Fault(events=[lying(place, lie), event(finish="stop")]))
    try:
        (written,) = write(model_of(server, "top_logprobs=5"), CHAT, want=Want(logprob=True))
    except ModelFailure:
        return
    assert written.text in ("Bonn", "x", "7", "")
    assert all(-1e6 <= token.logprob <= 0 for token in written.tokens)


def test_a_token_of_ten_gigabytes_is_not_made(server):
    server.faults.append(Fault(events=[lying("bytes", 10**10)]))
    with pytest.raises(ModelFailure, match=r"logprobs\.content\.0\.bytes is 10000000000"):
        write(model_of(server, "top_logprobs=5"), CHAT, want=Want(logprob=True))


@pytest.mark.parametrize("lie", [HUGE, -HUGE, 3.0, float("-inf"), float("nan"), True, "-1"], ids=shown)
def test_log_probabilities_are_finite_and_not_above_0(server, lie):
    server.faults.append(Fault(events=[event(" It", logprobs_of(" It", logprob=lie))]))
    with pytest.raises(ModelFailure, match=r"gave an event that can't be read: .*logprobs.0 is|no JSON"):
        write(model_of(server), want=Want(logprob=True))


def test_lists_of_different_lengths(server):
    logprobs = logprobs_of(" It", " is") | {"token_logprobs": [-0.5]}
    server.faults.append(Fault(events=[event(" It is", logprobs)]))
    with pytest.raises(ModelFailure, match="log-probabilities that can't be read"):
        write(model_of(server), want=Want(logprob=True))


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


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 100_000])
def test_json_without_a_bottom(server, deep):
    server.faults += [Fault(body=deep), Fault(events=[deep]), Fault(400, body=deep), Fault(body=deep)]
    model = model_of(server, ALL + "&tokenize=vllm")
    for _ in range(3):
        with pytest.raises(ModelFailure):
            write(model)
    with pytest.raises(ModelFailure, match="no JSON"):
        asyncio.run(model.count(RAW))


def test_an_answer_without_end(server, monkeypatch):
    monkeypatch.setattr(connection, "MAX_RESPONSE_BYTES", 3 << 20)
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "x" * 100_000}}]}
    server.faults.append(Fault(events=[thought] * 100))
    with pytest.raises(ModelFailure, match="an answer of more than 3 MiB"):
        write(model_of(server), CHAT)


@pytest.mark.parametrize("fault", [Fault(body=[0] * 500_000), Fault(events=[[0] * 500_000])])
def test_an_event_without_end(server, monkeypatch, fault):
    monkeypatch.setattr(connection, "MAX_EVENT_BYTES", 1 << 20)
    server.faults.append(fault)
    with pytest.raises(ModelFailure, match="an event of more than 1 MiB"):
        write(model_of(server), CHAT)


@pytest.mark.parametrize("status", [400, 500])
def test_of_an_error_without_end_the_beginning_is_read(server, status):
    body = "It is broken. " + "x" * (30 << 20)
    server.faults += [Fault(status, body=body), Fault(status, body=body)]
    with pytest.raises(ModelFailure, match=rf"answered {status}: It is broken. x{{200,300}}… ?"):
        write(model_of(server))
    with pytest.raises(ModelFailure, match=f"answered {status}: It is broken"):
        asyncio.run(model_of(server, ALL + "&tokenize=vllm").count(RAW))


def test_a_compressed_answer(server):
    server.faults.append(Fault(headers={"Content-Encoding": "gzip"}, body="bomb"))
    with pytest.raises(ModelFailure, match=r"a compressed answer \(gzip\), which was not asked for"):
        write(model_of(server))
    assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server_is_not_followed(server, monkeypatch, status):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ScriptedServer() as other:
        server.faults += [Fault(status, headers={"Location": f"{other.url}/completions"}, body="")] * 2
        with pytest.raises(
            ModelSpecError, match=f"redirects to {other.url}/comp.*, where prompt and key"
        ) as raised:
            write(model_of(server))
        with pytest.raises(ModelSpecError, match="redirects to"):
            asyncio.run(model_of(server, ALL + "&tokenize=vllm").count(RAW))
        assert other.requests == []
        assert KEY not in str(raised.value)


def test_a_redirect_within_the_server_names_the_address(server):
    """A compressed body, which may have any size, is not read."""
    bomb = {"Location": "/v1/again/completions", "Content-Encoding": "gzip"}
    server.faults.append(Fault(307, headers=bomb, body="this is no gzip"))
    with pytest.raises(ModelSpecError, match=r"redirects to .*/v1/again/completions"):
        write(model_of(server))
    assert len(server.requests) == 1


PAGE = "<!DOCTYPE html>\n<html><body>The context length of this page: too many tokens</body></html>"


@pytest.mark.parametrize("prompt", [RAW, CHAT])
def test_a_web_page_is_called_one(server, prompt):
    server.faults.append(Fault(body=PAGE, headers={"Content-Type": "text/html"}))
    with pytest.raises(
        ModelSpecError, match=r"gave a web page .*check that the URL ends as the server's own"
    ):
        write(model_of(server), prompt)


@pytest.mark.parametrize("status", [400, 413, 422, 500, 502])
def test_a_web_page_is_no_prompt_that_is_too_long(server, status):
    server.faults.append(Fault(status, body=PAGE, headers={"Content-Type": "text/html"}))
    with pytest.raises(AskanceError, match=f"answered {status}: <!DOCTYPE html>") as raised:
        write(model_of(server))
    assert not isinstance(raised.value, PromptTooLong)


def test_what_is_neither_an_event_nor_a_page(server):
    server.faults.append(Fault(body="event: hello\nid: 1\n\nwelcome\n"))
    with pytest.raises(ModelFailure, match="gave no JSON: 'event: hello"):
        write(model_of(server))


def test_a_count_that_comes_drop_by_drop_takes_no_longer_than_a_request_may():
    """Every byte arrives in time, but the response never ends."""

    def drip(listening):
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(1000):
                connection.sendall(b" ")
                time.sleep(0.02)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        dripping = threading.Thread(target=drip, args=(listening,), daemon=True)
        dripping.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        model = load_model(f"openai:tiny@{url}?{ALL}&tokenize=vllm&timeout=0.5&attempts=1")
        with pytest.raises(ModelUnavailable, match="did not answer in time"):
            asyncio.run(model.count(RAW))
        dripping.join()
