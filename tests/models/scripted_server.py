"""A server with a scripted model that speaks OpenAI's protocol on loopback, for tests and measurements.

The server offers chat and plain completions, streamed or not, with log-probabilities, echo and usage. It
counts tokens through the same endpoints as vLLM, llama.cpp and llama-cpp-python. It can also respond with any
fault instead of an answer.
"""

import asyncio
import json
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Fault:
    """A response that the server sends in place of an answer.

    Attributes:
        body: The body of an unstreamed answer: a JSON value, or literal text.
        events: The events of a streamed answer: JSON values, or literal texts.
        ends: How the answer ends: with [DONE], without it, or by a cut connection.
        seconds: The seconds to wait before the response.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    events: Sequence[object] = ()
    ends: Literal["done", "silent", "cut"] = "done"
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request that the server received."""

    path: str
    headers: Mapping[str, str]
    body: Json
    method: str = "POST"


class ScriptedServer:
    """A server that runs in a separate thread while its context manager is open.

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

    def __init__(
        self,
        model: ScriptedModel | None = None,
        *,
        latency_seconds: float = 0.0,
        token_seconds: float = 0.0,
        key: str = "",
        port: int = 0,
    ) -> None:
        self.faults: deque[Fault] = deque()
        self.answers: Callable[[Request], Fault | None] = lambda request: None
        self.withholds: set[Literal["logprobs", "completions"]] = set()
        self.requests: list[Request] = []
        self.num_sent: list[int] = []
        self.num_connections = 0
        # Texts are split into the words that the model writes, so that it can continue its own texts.
        self._model = model or ScriptedModel(control=VOCABULARY[:-1])
        self._latency_seconds, self._token_seconds = latency_seconds, token_seconds
        self._key, self._port = key, port
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        """The URL, such as ``http://127.0.0.1:8000/v1``."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_up.wait()
        return self

    def __exit__(self, *raised: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        await self._stop.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                if not await self._answer(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client may leave at any time
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer a request, and return whether the connection may be used again."""
        if self.faults:
            return await _give(self.faults.popleft(), writer)
        if self._key and request.headers.get("authorization") != f"Bearer {self._key}":
            message = f"wrong key: {request.headers.get('authorization')}"
            return await _give(Fault(401, body={"error": {"message": message}}), writer)
        if (answer := self.answers(request)) is not None:
            return await _give(answer, writer)
        await asyncio.sleep(self._latency_seconds)
        if "completions" in self.withholds and request.path.endswith("/v1/completions"):
            return await _give(Fault(404, body={"error": {"message": "no such endpoint"}}), writer)
        if "logprobs" in self.withholds:
            request.body.pop("logprobs", None)
        if request.path.endswith("/completions"):
            return await self._complete(request, writer)
        return await _give(_counted(self._model, request), writer)

    async def _complete(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        body, is_chat = request.body, "messages" in request.body
        if body.get("echo"):
            return await _give(Fault(body=_echo(self._model, body)), writer)
        prompt = _prompt(body)
        sampling = Sampling(
            body.get("max_completion_tokens") or body.get("max_tokens") or 16,
            body.get("temperature", 1.0),
            body.get("top_p", 1.0),
            body.get("top_k", 0),
        )
        want = Want(logprob=True, top_logprobs=_num_top(body))
        try:
            (written,) = await self._model.generate(
                GenerateRequest(prompt, sampling, want, key=("seed", body.get("seed", "")))
            )
        except PromptTooLong as error:
            problem = {"message": str(error), "code": "context_length_exceeded"}
            return await _give(Fault(400, body={"error": problem}), writer)
        events = list(_events(written, body, is_chat=is_chat))
        _begin(writer, 200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        self.num_sent.append(0)
        began = self._loop.time()
        for number, event in enumerate(events):
            if self._token_seconds:  # due by the clock, so that delays do not add up
                due = began + (number + 1) * self._token_seconds
                await asyncio.sleep(max(0.0, due - self._loop.time()))
            _chunk(writer, f"data: {json.dumps(event)}\n\n")
            if self._token_seconds or number == len(events) - 1:
                await writer.drain()
            self.num_sent[-1] += 1
        _chunk(writer, _DONE)
        _chunk(writer, "")
        await writer.drain()
        return True


async def _read(reader: asyncio.StreamReader) -> Request | None:
    first = await reader.readline()
    if not first.strip():
        return None
    headers: dict[str, str] = {}
    while line := (await reader.readline()).decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, *_ = first.decode().split()
    return Request(path, headers, json.loads(content or b"{}"), method)


def _begin(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str]) -> None:
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())


def _chunk(writer: asyncio.StreamWriter, text: str) -> None:
    content = text.encode()
    writer.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")


async def _give(fault: Fault, writer: asyncio.StreamWriter) -> bool:
    await asyncio.sleep(fault.seconds)
    if fault.body is not None or fault.status != 200:
        text = fault.body if isinstance(fault.body, str) else json.dumps(fault.body)
        content = text.encode()
        kind = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        _begin(writer, fault.status, {**kind, **fault.headers})
        writer.write(content)
        await writer.drain()
        return fault.ends != "cut"
    _begin(writer, 200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
    for event in fault.events:
        _chunk(writer, f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    if fault.ends == "done":
        _chunk(writer, _DONE)
    if fault.ends != "cut":
        _chunk(writer, "")
    await writer.drain()
    return fault.ends != "cut"


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


def _events(written: Generation, body: Json, *, is_chat: bool) -> Iterator[Json]:
    has_logprobs = body.get("logprobs") not in (None, False)
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
    return Fault(404, body={"error": {"message": f"no such path: {request.path}"}})
