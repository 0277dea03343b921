"""Whatever a model's server sends becomes a valid result, or an error of askance that names the server."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hostile import VALUES, altered, mutants
from tests.models import protocol_server
from tests.models.scripted_server import Request
from tests.models.served import CHAT, KEY, RAW, event, logprobs_of
from tests.models.wire import Wire

from askance.core.errors import AskanceError
from askance.core.safe_text import json_line
from askance.core.types import GenerateRequest, Sampling, Want
from askance.models.openai.connection import Connection
from askance.models.openai.events import MAX_TOKENS
from askance.models.openai.model import OpenaiModel
from askance.models.openai.options import read_options
from askance.models.openai.probe import probe
from askance.models.openai.server_info import ServerInfo, fetch_server_info

URL, SECONDS, MOST = "http://model.test/v1", 600.0, 20
ALL = Want(logprob=True, top_logprobs=2, entropy=True)
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
TOKENS = (" Bonn", "é.")


def chat_event(text="", finish=None, **more):
    top = [{"token": token, "logprob": -0.7, "bytes": [*token.encode()]} for token in (text, " or")]
    entry = {"token": text, "logprob": -0.7, "bytes": [*text.encode()], "top_logprobs": top}
    logprobs = {"content": [entry]} if text else None
    choice = {"index": 0, "delta": {"content": text, **more}, "logprobs": logprobs, "finish_reason": finish}
    return {"id": "c", "choices": [choice]}


TEXT = [event(token, logprobs_of(token, top=[{token: -0.7, " or": -0.7}])) for token in TOKENS]
TEXT = [*TEXT, event("", None, "stop"), {"choices": [], "usage": USAGE}]
TALK = [chat_event(reasoning_content="Well."), *map(chat_event, TOKENS), chat_event("", "stop")]
TALK = [*TALK, {"choices": [], "usage": USAGE}]
PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Well."}]},
    {"type": "text", "text": "Bonn"},
]
MESSAGE = {"role": "assistant", "content": PARTS, "tool_calls": [{"function": {"name": "f"}}]}
WHOLE = {"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}], "usage": USAGE}
REFUSAL = {"error": {"message": "seed is unknown", "type": "bad", "param": "seed", "code": 400}}
ECHO = logprobs_of("Where", " is", " it?", " No", "more") | {"token_logprobs": [None, -1.0, -1.0, -0.5, -0.1]}
ECHO = event("Where is it? Nomore", ECHO, "length")
LEAKS = [KEY, f"Bearer {KEY}", {"message": f"Wrong key {KEY}!"}, f" \n{KEY}"]
LIES = st.one_of(VALUES, st.sampled_from(LEAKS))
HEADERS = [
    *(b"Location: http://[", b"Location: //", b"Location: /again", b"Location: http://a:99999999/x"),
    *(b"Location: http://\xe2\x80\xa8/", b"Location: http://xn--a/?k=" + KEY.encode(), b"Content-Length: -1"),
    *(
        b"Retry-After: nan",
        b"Retry-After: 1e400",
        b"Set-Cookie: \xff=\x01; expires=x; max-age=-1e9",
        b"A: \xff",
    ),
    *(b"Content-Encoding: gzip", b"Content-Encoding: identity, br", b"Transfer-Encoding: gzip, chunked"),
    *(
        b"Content-Type: text/html; charset=utf-7",
        b"Connection: close",
        b"X: " + KEY.encode(),
        b": ",
        b"a" * 9999,
    ),
]
STATUSES = (400, 401, 404, 413, 422, 429, 500, 501, 503, 307, 204, 101, 100, 199, 999)


RARELY = st.sampled_from((False, False, False, False, False, True))


@st.composite
def http(draw, valid, status=200):
    """An HTTP response with events (a list) or a value of JSON, which may be damaged at any level."""
    kind, body = b"application/json", draw(altered(valid, LIES))
    if isinstance(valid, list):
        lines = [json.dumps(each).encode() for each in (body if isinstance(body, list) else [body])]
        lines += [] if draw(RARELY) else [b"[DONE]"]
        end = draw(st.sampled_from((b"\n\n", b"\n\n", b"\r\n\r\n", b"\r\r", b"\nid: 1\nretry: x\n\n", b"\n")))
        kind, body = b"text/event-stream", b"".join(b"data: " + line + end for line in lines)
    else:
        body = json.dumps(body).encode()
    body = draw(mutants(body)) if draw(RARELY) else body
    status = draw(st.sampled_from(STATUSES)) if draw(RARELY) else status
    head = [b"HTTP/1.1 %d Status" % status, b"Content-Type: " + kind]
    head += [draw(st.sampled_from(HEADERS))] if draw(RARELY) else []
    if draw(st.booleans()):
        head.append(
            b"Content-Length: %d" % (len(body) + (draw(st.sampled_from((-1, 5))) if draw(RARELY) else 0))
        )
    else:
        head.append(b"Transfer-Encoding: chunked")
        size = draw(st.sampled_from((10**6, 7)))
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])
    raw = b"\r\n".join([*head, b"", b""]) + body
    raw = draw(mutants(raw)) if draw(RARELY) else raw
    return raw[: draw(st.integers(0, len(raw)))] if draw(RARELY) else raw


def wire(data, reply, sizes=(1 << 16, 1, 5)):
    return Wire(
        reply, data.draw(st.sampled_from(sizes)), data.draw(st.sampled_from(("closed", "reset", "open")))
    )


def model(options):
    """A model whose server has these options."""
    return OpenaiModel("tiny", read_options(options), Connection("tiny", URL, KEY))


def run(wire, work):
    """Return the result of a call, or None after an error that names the server and does not show the key."""
    try:
        result, seconds = wire.run(work)
    except AskanceError as error:
        result, seconds, message = None, 0, str(error)
    else:
        message = f"tiny@{URL}"
    assert f"tiny@{URL}" in message
    assert KEY not in message
    assert len(message) < 2000
    assert seconds <= SECONDS * len(wire.requests)
    return result


def check_generation(generation, sent, most=MOST):
    """A text is that of its tokens and of the pieces that were sent, and its numbers are finite."""
    assert "".join(token.text for token in generation.tokens) == generation.text == "".join(sent)
    assert len(generation.tokens) <= most
    ends = [token.end for token in generation.tokens]
    assert [token.start for token in generation.tokens] == [0, *ends][: len(ends)]
    for token in (*generation.tokens, *generation.dropped):
        assert -math.inf < (token.logprob or 0) <= 0 <= (token.entropy or 0) < math.inf
        assert token.id >= 0
        assert len(token.top) <= 2
        assert all(-math.inf < logprob <= 0 for _, logprob in token.top)
        assert token.entropy is None or sum(math.exp(logprob) for _, logprob in token.top) < 1.02
    assert 0 <= generation.reused_tokens <= generation.prompt_tokens <= MAX_TOKENS
    assert 0 <= generation.thought_tokens <= MAX_TOKENS
    assert generation.finish in ("end", "length", "stop")
    f"{generation.text}{generation.thoughts}".encode()
    assert json.loads(json_line(generation))


GENERATIONS = {
    "text": (RAW, TEXT, ALL, {}),
    "chat": (CHAT, TALK, ALL, {}),
    "chat without signals": (CHAT, TALK, Want(), {"thoughts": "none"}),
    "open thoughts": (CHAT, TALK[1:], ALL, {"thoughts": "open"}),
    "whole": (CHAT, WHOLE, Want(), {"running_usage": "1", "neutral": "1"}),
}
DECLARED = {"completions": "1", "top_logprobs": "20"}


@pytest.mark.parametrize("name", GENERATIONS)
@settings(max_examples=30)
@given(data=st.data())
def test_any_reply_is_a_text_or_an_error(name, data):
    prompt, reply, want, options = GENERATIONS[name]
    raw, sent = data.draw(http(reply)), []
    stop = data.draw(st.sampled_from(((), ("onn", "\n"))))
    sampling = Sampling(data.draw(st.sampled_from((MOST, 1))), 1.0, stop=stop)
    refusal = data.draw(http(REFUSAL, status=400)) if data.draw(RARELY) else raw
    request = GenerateRequest(prompt, sampling, want, key=("k",), on_text=sent.append)
    server = wire(data, lambda path, body: refusal if "seed" in body else raw)
    generations = run(server, model(DECLARED | options).generate(request))
    for generation in generations or ():
        check_generation(generation, sent, sampling.max_tokens)


MODELS = {
    "object": "list",
    "data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 4096, "meta": {"n_ctx": 8}}],
}
CALLS = {
    "vllm's count": ({"count": 7, "max_model_len": 9}, {"tokenize": "vllm"}, lambda model: model.count(RAW)),
    "llama.cpp's count": (
        {"tokens": [1, 2], "prompt": "hi"},
        {"tokenize": "llama.cpp"},
        lambda model: model.count(CHAT),
    ),
    "scores": (ECHO, {"chat": "0", "score": "1"}, lambda model: model.score(RAW, [" No"])),
    "listing": (MODELS, {}, lambda model: fetch_server_info("tiny", model._connection)),
}


def check_result(result):
    """Counts and scores are finite numbers, and a listing has texts and a window that there can be."""
    match result:
        case int():
            assert 0 <= result <= MAX_TOKENS
        case (scored,):
            assert -math.inf < scored.logprob <= 0 < scored.num_tokens
        case ServerInfo():
            assert all(isinstance(each, str) for each in (result.server, result.version, *result.models))
            assert 0 <= result.context <= MAX_TOKENS
            assert KEY not in result.version
        case _:
            assert result is None


@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=20)
@given(data=st.data())
def test_any_reply_to_another_call_is_a_result_or_an_error(name, data):
    reply, options, call = CALLS[name]
    raw = data.draw(http(reply))
    check_result(run(wire(data, lambda path, body: raw), call(model(DECLARED | options))))


def raw_reply(fault):
    """The bytes of a response that a scripted server gives."""
    if fault.body is not None or fault.status != 200:
        kind, body = "application/json", json.dumps(fault.body)
    else:
        kind, body = "text/event-stream", "".join(f"data: {json.dumps(each)}\n\n" for each in fault.events)
    return f"HTTP/1.1 {fault.status} S\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n{body}".encode()


@pytest.mark.parametrize("name", protocol_server.NAMES)
@settings(max_examples=5)
@given(data=st.data())
def test_a_server_with_one_odd_reply_is_probed_or_refused(name, data):
    """The options that a probe finds can be written, read and used."""
    answer, odd = protocol_server.answers(name), data.draw(st.integers(0, 15))
    model_name = protocol_server.protocol(name)["responses"]["/v1/models"]["data"][0]["id"]
    connection = Connection("tiny", URL, KEY)

    def reply(path, body):
        fault = answer(Request(path, {}, body, "POST" if body else "GET"))
        if len(server.requests) != odd + 1:
            return raw_reply(fault)
        return data.draw(http(fault.events or fault.body, status=fault.status))

    async def find():
        info = await fetch_server_info(model_name, connection)
        return info, await probe(model_name, connection, info, SECONDS)

    server = wire(data, reply, sizes=(1 << 16,))
    if found := run(server, find()):
        info, options = found
        check_result(info)
        assert read_options(options).capabilities
