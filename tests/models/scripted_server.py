"""A server with a scripted model that speaks OpenAI's protocol on loopback, for tests and measurements.

The server offers chat and plain completions, streamed or not, with log-probabilities, echo and usage. It
counts tokens through the same endpoints as vLLM, llama.cpp and llama-cpp-python. It can also respond with any
fault instead of an answer.
"""

import asyncio
import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from askance.core.errors import PromptTooLong
from askance.core.types import (
    Chat,
    GenerateRequest,
    Generation,
    Prompt,
    Raw,
    Sampling,
    Span,
    Token,
    Turn,
    Want,
)
from askance.models.scripted import VOCABULARY, ScriptedModel, nonsense_distribution

Json = dict[str, Any]
_DONE = "data: [DONE]\n\n"
_STREAM = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}


@dataclass(frozen=True, slots=True)
class Fault:
    """A response that the server sends in place of an answer.

    Attributes:
        body: The body of an unstreamed answer: a JSON value, or literal text.
        events: The events of a streamed answer: JSON values, or literal texts.
        ends: How the answer ends: with [DONE], without it, by a cut connection, with [DONE] but no end of the
            response, or never, with a space every 20 ms. "gone" cuts the connection without any response.
        seconds: The seconds to wait before the response.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    events: Sequence[object] = ()
    ends: Literal["done", "silent", "cut", "open", "drips", "gone"] = "done"
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request that the server received."""

    path: str
    headers: Mapping[str, str]
    body: Json
    method: str = "POST"


class ScriptedServer(ThreadingHTTPServer):
    """A server that runs in separate threads while its context manager is open.

    Args:
        latency_seconds, token_seconds: The waits before each answer and before each token.
        key: The API key that requests must have; empty if they need none.

    Attributes:
        faults: The next responses, in order. After the last of them, the server gives answers again.
        answers: A function that may return a response to a request, in place of the scripted model's answer.
        withholds: The features that the server lacks: log-probabilities, completions.
        requests: All requests so far.
        num_sent: For each streamed answer, the number of tokens sent before the client left.
        num_connections: The number of connections so far.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(
        self,
        model: ScriptedModel | None = None,
        *,
        latency_seconds: float = 0.0,
        token_seconds: float = 0.0,
        key: str = "",
        port: int = 0,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.faults: deque[Fault] = deque()
        self.answers: Callable[[Request], Fault | None] = lambda request: None
        self.withholds: set[Literal["logprobs", "completions"]] = set()
        self.requests: list[Request] = []
        self.num_sent: list[int] = []
        self.num_connections = 0
        # Texts are split into the words that the model writes, so that it can continue its own texts.
        self.model = model or ScriptedModel(control=VOCABULARY[:-1])
        self.latency_seconds, self.token_seconds, self.key = latency_seconds, token_seconds, key
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.shutdown()
        super().__exit__(*raised)

    def handle_error(self, *_: object) -> None:
        """Ignore errors of connections, since the client may leave at any time."""

    def respond(self, request: Request) -> Fault | None:
        """Return the response to a request, or None for a text that the model generates."""
        if self.faults:
            return self.faults.popleft()
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return _refusal(401, f"wrong key: {request.headers.get('authorization')}")
        if (answer := self.answers(request)) is not None:
            return answer
        time.sleep(self.latency_seconds)
        if "completions" in self.withholds and request.path.endswith("/v1/completions"):
            return _refusal(404, "no such endpoint")
        if "logprobs" in self.withholds:
            request.body.pop("logprobs", None)
        if not request.path.endswith("/completions"):
            return _counted(self.model, request)
        return Fault(body=_echo(self.model, request.body)) if request.body.get("echo") else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ScriptedServer

    def setup(self) -> None:
        super().setup()
        self.server.num_connections += 1

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, json.loads(content or b"{}"), self.command)
        self.server.requests.append(request)
        response = self.server.respond(request)
        if response is None:
            try:
                self._send_events(list(_events(_generate(self.server.model, request.body), request.body)))
            except PromptTooLong as error:
                response = _refusal(400, str(error), code="context_length_exceeded")
        if response is not None:
            self._give(response)

    do_GET = do_POST

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status, "Status")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, text: str) -> None:
        content = text.encode()
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def _send_events(self, events: Sequence[Json]) -> None:
        server = self.server
        self._begin(200, _STREAM)
        server.num_sent.append(0)
        began, stream = time.monotonic(), len(server.num_sent) - 1
        for number, event in enumerate(events, start=1):
            if server.token_seconds:  # due by the clock, so that delays do not add up
                time.sleep(max(0.0, began + number * server.token_seconds - time.monotonic()))
            self._chunk(f"data: {json.dumps(event)}\n\n")
            server.num_sent[stream] += 1
        self._chunk(_DONE)
        self._chunk("")

    def _give(self, fault: Fault) -> None:
        time.sleep(fault.seconds)
        self.close_connection = fault.ends in ("cut", "gone")
        if fault.ends == "gone":
            return
        if fault.body is not None or fault.status != 200:
            content = (fault.body if isinstance(fault.body, str) else json.dumps(fault.body)).encode()
            kind = {"Content-Type": "application/json", "Content-Length": str(len(content))}
            self._begin(fault.status, {**kind, **fault.headers})
            self.wfile.write(content)
            while fault.ends == "drips":
                self.wfile.write(b" ")
                time.sleep(0.02)
            return
        self._begin(200, _STREAM)
        for event in fault.events:
            self._chunk(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
        if fault.ends in ("done", "open"):
            self._chunk(_DONE)
        if fault.ends in ("done", "silent"):
            self._chunk("")


def _refusal(status: int, message: str, **more: str) -> Fault:
    return Fault(status, body={"error": {"message": message, **more}})


def _generate(model: ScriptedModel, body: Json) -> Generation:
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or 16
    shape = body.get("temperature", 1.0), body.get("top_p", 1.0), body.get("top_k", 0)
    want = Want(logprob=True, top_logprobs=_num_top(body))
    key = ("seed", body.get("seed", ""))
    request = GenerateRequest(_prompt(body), Sampling(limit, *shape), want, key=key)
    (generation,) = asyncio.run(model.generate(request))
    return generation


def _prompt(body: Json) -> Prompt:
    if "messages" not in body:
        return Raw((Span(body["prompt"]),))
    messages = body["messages"]
    continues = messages[-1]["role"] == "assistant"
    turns = tuple(
        Turn(message["role"], (Span(message["content"]),))
        for message in messages[: -1 if continues else None]
    )
    return Chat(turns, (Span(messages[-1]["content"]),) if continues else ())


def _num_top(body: Json) -> int:
    wanted = body.get("logprobs")
    return int(body.get("top_logprobs", 0)) if isinstance(wanted, bool) else int(wanted or 0)


def _events(written: Generation, body: Json) -> Iterator[Json]:
    has_logprobs, is_chat = body.get("logprobs") not in (None, False), "messages" in body
    options = body.get("stream_options") or {}
    usage = {"prompt_tokens": written.prompt_tokens, "completion_tokens": written.generated_tokens}
    running = {"usage": usage} if options.get("continuous_usage_stats") else {}
    for token in written.tokens:
        yield {"choices": [_choice(token, has_logprobs, None, is_chat=is_chat)], **running}
    end = written.dropped[0] if written.dropped else Token(0, "", 0, 0)
    finish = "stop" if written.finish == "end" else written.finish
    last = _choice(end, has_logprobs and bool(written.dropped), finish, is_chat=is_chat)
    yield {"choices": [last], **running}
    if options.get("include_usage"):
        yield {"choices": [], "usage": usage}


def _choice(token: Token, has_logprobs: bool, finish: str | None, *, is_chat: bool) -> Json:
    text = token.text or "<|end|>"
    if is_chat:
        top = [{"token": text, "logprob": logprob, "bytes": None} for text, logprob in token.top]
        entry = {"token": text, "logprob": token.logprob, "bytes": list(text.encode()), "top_logprobs": top}
        fields: Json = {"delta": {"content": token.text}, "logprobs": {"content": [entry]}}
    else:
        logprobs = {"tokens": [text], "token_logprobs": [token.logprob], "top_logprobs": [dict(token.top)]}
        fields = {"text": token.text, "logprobs": logprobs}
    return {"index": 0, **fields, "finish_reason": finish} | ({} if has_logprobs else {"logprobs": None})


def _echo(model: ScriptedModel, body: Json) -> Json:
    """Return the prompt with the log-probability of each token, followed by one more token."""
    ids = model.tokenize([Span(body["prompt"])])
    pieces = model.pieces(ids)
    logprobs = [
        math.log(nonsense_distribution(ids[max(0, at - 3) : at]).get(piece, 1e-6)) if at else None
        for at, piece in enumerate(pieces)
    ]
    tokens = [*pieces, " more"]
    scores = {"tokens": tokens, "token_logprobs": [*logprobs, -1.0], "top_logprobs": None}
    choice = {"index": 0, "text": "".join(tokens), "logprobs": scores, "finish_reason": "length"}
    return {"choices": [choice]}


def _counted(model: ScriptedModel, request: Request) -> Fault:
    body = request.body
    match request.path:
        case "/apply-template":
            return Fault(body={"prompt": model.decode(model.prompt_ids(_prompt(body)))})
        case "/tokenize" if "content" in body:
            return Fault(body={"tokens": list(model.tokenize([Span(body["content"])]))})
        case "/tokenize":
            return Fault(body={"count": len(model.prompt_ids(_prompt(body)))})
        case "/extras/tokenize/count":
            return Fault(body={"count": len(model.tokenize([Span(body["input"])]))})
    return _refusal(404, f"no such path: {request.path}")
