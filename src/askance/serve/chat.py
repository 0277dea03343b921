"""Chat completions: one question answered, in one piece or as a stream of events."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from askance.ask import Engine
from askance.core.answers import Answer, Usage
from askance.core.ports import Retriever
from askance.core.safe_text import json_line
from askance.core.trace import Answered, Committed, Generated, Trace
from askance.core.types import Question
from askance.serve.citations import NumberedStream, UrlOf, numbered_content
from askance.serve.errors import ApiError, api_error
from askance.serve.metrics import Metrics
from askance.serve.traces import Traces
from askance.storage.trace_file import event_record

T = TypeVar("T")
_PING_SECONDS, _GRACE_SECONDS = 15, 4
"""The pause before a ping, and the time that a stream has when the server ends: less than other requests."""
_ENDS = ApiError(503, "the server ends: ask again.", type="server_error", code="server_ends")


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """A question to answer, and where to record it.

    Attributes:
        ignored: What the request has and the server does not use, as sentences.
        retriever: The retriever, which finds what the owner may see.
        owner: The owner of the trace.
        model: The model to name in the response.
        has_events: Whether a stream also has the events of the trace, as events of the type "trace".
        has_usage: Whether the last chunk of a stream is the cost of the answer.
        traces, metrics: Where the trace is kept and the question is counted.
        id: The id of the trace.
        created: The time of the request, in seconds since 1970.
    """

    engine: Engine
    question: Question
    ignored: Sequence[str]
    retriever: Retriever | None
    owner: str
    model: str
    method: str
    url_of: UrlOf
    has_events: bool
    has_usage: bool
    traces: Traces
    metrics: Metrics
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    created: int = field(default_factory=lambda: int(time.time()))

    def _head(self, kind: str) -> dict[str, Any]:
        """Return the fields that every response and every event begins with."""
        head = {"id": f"chatcmpl-{self.id}", "object": kind, "created": self.created, "model": self.model}
        return {**head, "system_fingerprint": None}

    def _about(self, trace: Trace, answer: Answer, usage: Usage) -> dict[str, Any]:
        """Return the fields that only askance has."""
        decisions = Counter(f"{each.name}:{each.outcome}" for each in trace.decisions)
        return {
            "trace_id": self.id,
            "method": self.method,
            "searches": usage.searches,
            "confidence": answer.confidence,
            "abstained": answer.abstained,
            "source": answer.source,
            "unsupported": [
                {"text": answer.text[each.start : each.end], "why": each.why} for each in answer.unsupported
            ],
            "checked_by": answer.checked_by,
            "decisions": dict(sorted(decisions.items())),
            "ignored": self.ignored,
        }

    async def complete(self) -> dict[str, Any]:
        """Answer the question, and return OpenAI's object.

        Raises:
            ApiError: The question failed.
        """
        async with self._kept() as trace:
            result = await self.engine.answer(self.question, trace=trace, retriever=self.retriever)
        content, annotations = numbered_content(result.answer, self.url_of)
        message = {"role": "assistant", "content": content, "refusal": None, "annotations": annotations}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(trace)}
        return {
            **self._head("chat.completion"),
            "choices": [choice],
            "usage": usage_record(result.usage),
            "askance": self._about(trace, result.answer, result.usage),
        }

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """Answer the question, and yield the events of the stream.

        If the question fails, the last event is an error in OpenAI's form. Closing the iterator cancels the
        question.
        """
        stream, started = NumberedStream(), time.perf_counter()

        def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> ServerSentEvent:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return _event({**self._head("chat.completion.chunk"), "choices": [choice], **more})

        def content_chunk(text: str) -> ServerSentEvent:
            if stream.num_sent == len(text):
                self.metrics.first_text_seconds.observe(time.perf_counter() - started)
            return chunk({"content": text})

        yield chunk({"role": "assistant", "content": ""}, askance={"trace_id": self.id})
        ask = partial(self.engine.stream, self.question, retriever=self.retriever)
        try:
            async with self._kept() as trace, aclosing(ask(trace=trace)) as events:
                async for event in events:
                    if self.has_events:
                        yield ServerSentEvent(json_line(event_record(event)), event="trace")
                    if not isinstance(event, Committed):
                        continue
                    # Abstaining removes all citations once the answer is complete.
                    settled = trace.settled() if self.engine.abstaining is None else (0, ())
                    if text := stream.add(event.text, *settled):
                        yield content_chunk(text)
        except ApiError as error:
            yield _event(error.body)
            return
        assert isinstance(event, Answered), "a question without an error ends with its answer"
        content, annotations = numbered_content(event.answer, self.url_of)
        if rest := content[stream.num_sent :]:
            stream.num_sent += len(rest)
            yield content_chunk(rest)
        for annotation in annotations:
            yield chunk({"annotations": [annotation]})
        yield chunk({}, finish_reason(trace), askance=self._about(trace, event.answer, event.usage))
        if self.has_usage:
            usage = usage_record(event.usage)
            yield _event({**self._head("chat.completion.chunk"), "choices": [], "usage": usage})
        yield ServerSentEvent("[DONE]")

    @asynccontextmanager
    async def _kept(self) -> AsyncIterator[Trace]:
        """Keep the trace of the question inside the block, count it, and translate its error.

        Raises:
            ApiError: The question failed.
        """
        trace, outcome = Trace(), "cancelled"
        trace.has_tracebacks = False
        try:
            yield trace
            outcome = "answered"
        except Exception as error:
            outcome = "failed"
            raise api_error(error, self.id) from error
        finally:
            self.traces.keep(self.id, self.owner, trace)
            self.metrics.count(self.method, outcome, trace.usage())


def finish_reason(trace: Trace) -> str:
    """Return "length" if the last text of the answering model was cut off at its limit, otherwise "stop"."""
    texts = [each for each in trace.events if isinstance(each, Generated) and each.role == "answer"]
    return "length" if texts and texts[-1].finish == "length" else "stop"


def usage_record(usage: Usage) -> dict[str, Any]:
    """Return the cost of an answer in OpenAI's form."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.generated_tokens,
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.reused_tokens},
    }


def _event(record: Mapping[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(json_line(record))


async def unless_client_leaves(request: Request, work: Awaitable[T]) -> T:
    """Return the result of `work`, which is cancelled as soon as the client has left.

    Raises:
        ClientLeft: The client has left.
    """
    task, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return task.result()
    finally:
        for each in (task, leaving):
            each.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    """Wait until the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class ClientLeft(Exception):
    """The client has left, so nobody reads the response."""


class StreamResponse(EventSourceResponse):
    """A stream of events that holds resources, which are released however the stream ends.

    The response of a client that leaves before the first event would otherwise never release them.

    Args:
        send_seconds: The time that the client may take to read one message, also the first and the last.
    """

    def __init__(
        self, events: AsyncIterator[ServerSentEvent], held: AsyncExitStack, send_seconds: float
    ) -> None:
        super().__init__(events, ping=_PING_SECONDS, sep="\n", shutdown_grace_period=_GRACE_SECONDS)
        self._held, self._send_seconds = held, send_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self._send_seconds):
                    await send(message)
                    await asyncio.sleep(0)  # a client that left is noticed before the next message
            except TimeoutError as error:
                raise ClientLeft from error

        async with self._held:
            try:
                await super().__call__(scope, receive, send_in_time)
                if self.active:  # the server ends
                    await send_in_time({"type": "http.response.body", "body": _event(_ENDS.body).encode()})
            except* ClientLeft:  # it stopped reading
                pass
