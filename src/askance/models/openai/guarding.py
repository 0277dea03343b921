"""What is watched over each request and answer: where a redirect leads, and how much a server sends."""

from collections.abc import AsyncIterator
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
        method: of every request; a redirect that makes another of it loses the prompt.
        most_bytes: of an answer; 0 for as many as a long text with all that is told of it has.
    """

    def __init__(self, url: str, failures: Failures, method: str = "POST", most_bytes: int = 0) -> None:
        self._origin, self._failures = _origin(httpx2.URL(url)), failures
        self._method, self._most_bytes = method, most_bytes or MOST_ANSWER_BYTES

    @property
    def settings(self) -> dict[str, Any]:
        """What the constructor of a client takes."""
        hooks = {"request": [self._leave], "response": [self._arrive]}
        return {"event_hooks": hooks, "headers": _PLAIN}

    async def _leave(self, request: httpx2.Request) -> None:
        """Raises ModelSpecError for a redirect that leads to another server, or loses the prompt."""
        if _origin(request.url) != self._origin or request.method != self._method:
            raise self._failures.of_redirect(str(request.url))

    async def _arrive(self, response: httpx2.Response) -> None:
        """Bounds what follows. Raises ModelFailure for a compressed answer."""
        coding = response.headers.get("content-encoding", "identity")
        if coding.strip().lower() != "identity":
            raise self._failures.of_answer(f"a compressed answer ({coding}), which was not asked for")
        is_error, stream = response.status_code >= 400, response.stream
        bound = MOST_ERROR_BYTES if is_error else self._most_bytes
        error = None if is_error else self._failures.of_size(bound)
        assert isinstance(stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(stream, bound, error)


class _Bounded(httpx2.AsyncByteStream):
    """Counts what a stream gives, and ends it, or raises, where that is too much."""

    def __init__(self, stream: httpx2.AsyncByteStream, most_bytes: int, error: AskanceError | None) -> None:
        self._stream, self._most_bytes, self._error = stream, most_bytes, error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most_bytes
        async for chunk in self._stream:
            if len(chunk) > left and self._error is not None:
                raise self._error
            yield chunk[:left]
            left -= len(chunk)
            if left < 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    ports = {"http": 80, "https": 443}
    return url.scheme, url.host, url.port or ports.get(url.scheme)
