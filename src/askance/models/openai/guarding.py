"""What is watched over each request and answer: where a redirect leads, and how much a server sends."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2

from askance.core.errors import AskanceError
from askance.models.openai.failures import Failures

MOST_ANSWER_BYTES = 256 << 20
"""An answer of 64,000 tokens, each with 20 alternatives, has some 160 MB as a stream."""
MOST_ERROR_BYTES = 1 << 20
"""What is read of an error; the rest of it is left."""
_PLAIN = {"accept-encoding": "identity"}
"""A few compressed bytes can be any number of plain ones."""


class Guard:
    """The hooks of one server's clients.

    Args:
        url: of the server, as its user named it.
    """

    def __init__(self, url: str, failures: Failures) -> None:
        self._origin, self._failures = _origin(httpx2.URL(url)), failures

    def settings(self, *, is_async: bool) -> dict[str, Any]:
        """What the constructor of a client takes."""
        hooks: dict[str, Any] = {"request": [self._leave], "response": [self._arrive]}
        if is_async:
            hooks = {"request": [self._leave_async], "response": [self._arrive_async]}
        return {"event_hooks": hooks, "headers": _PLAIN}

    def _leave(self, request: httpx2.Request) -> None:
        """Raises ModelSpecError for a redirect that leads to another server, or loses the prompt."""
        if _origin(request.url) != self._origin or request.method != "POST":
            raise self._failures.of_redirect(str(request.url))

    def _arrive(self, response: httpx2.Response) -> None:
        """Bounds what follows. Raises ModelFailure for a compressed answer."""
        coding = response.headers.get("content-encoding", "identity")
        if coding.strip().lower() != "identity":
            raise self._failures.of_answer(f"a compressed answer ({coding}), which was not asked for")
        is_error, stream = response.status_code >= 400, response.stream
        bound = MOST_ERROR_BYTES if is_error else MOST_ANSWER_BYTES
        error = None if is_error else self._failures.of_size(bound)
        assert isinstance(stream, httpx2.SyncByteStream | httpx2.AsyncByteStream)
        kind = _BoundedAsync if isinstance(stream, httpx2.AsyncByteStream) else _Bounded
        response.stream = kind(stream, bound, error)

    async def _leave_async(self, request: httpx2.Request) -> None:
        self._leave(request)

    async def _arrive_async(self, response: httpx2.Response) -> None:
        self._arrive(response)


class _Bound:
    """Counts what a stream gives, and ends it, or raises, where that is too much."""

    def __init__(self, stream: Any, most_bytes: int, error: AskanceError | None) -> None:
        self._stream, self._left, self._error = stream, most_bytes, error

    def _within(self, chunk: bytes) -> bytes:
        """As much of a chunk as there is room for."""
        kept = chunk[: max(0, self._left)]
        self._left -= len(chunk)
        if self._left < 0 and self._error is not None:
            raise self._error
        return kept


class _Bounded(_Bound, httpx2.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            yield self._within(chunk)
            if self._left < 0:
                return

    def close(self) -> None:
        self._stream.close()


class _BoundedAsync(_Bound, httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield self._within(chunk)
            if self._left < 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    ports = {"http": 80, "https": 443}
    return url.scheme, url.host, url.port or ports.get(url.scheme)
