"""One server, as each event loop reaches it: requests, how many at a time, and what their failures mean."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from ssl import SSLContext
from threading import Thread
from typing import Any
from weakref import WeakKeyDictionary

from askance.core.errors import AskanceError, MissingExtra

if find_spec("openai") is None:
    raise MissingExtra("openai", "remote", "a model behind a server")

import httpx2  # the client is known to be there, and with it what it speaks HTTP with
import openai

from askance.models.openai.failures import Failures
from askance.models.openai.guarding import Guard
from askance.models.openai.streaming import NoJson, Values, read_json

_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.1
"""For the end of an answer whose last event has come: a connection that is read to its end is used again."""
_NO_KEY = "none"
"""The client insists on a key, also where the server does not."""

Body = Mapping[str, Any]

_OPEN = set[AsyncGenerator["_Lane"]]()
"""One whose model is forgotten is closed with its loop all the same: memory that is tidied up would not wait
for connections to be closed.
"""


@dataclass(slots=True, eq=False)
class _Lane:
    """The places of one event loop. `opened` is what closes them.

    A place that is taken has a client of its own, and so its own connection: one client for all would look at
    each connection it has before and after each request, which takes longer than to send one.
    """

    places: asyncio.Semaphore
    idle: list[openai.AsyncOpenAI]
    opened: "AsyncGenerator[_Lane] | None" = None


class Connection:
    """Requests to one server.

    Every event loop has clients of its own, which are closed when the loop shuts down.

    Args:
        url: such as ``http://host/v1``.
        key: of the server; empty for none.
        timeout: most seconds of a request.
        in_flight: most requests of one event loop at a time; others wait for a place.
    """

    def __init__(self, url: str, key: str, failures: Failures, *, timeout: float, in_flight: int) -> None:
        self._url, self._key, self._failures = url, key, failures
        self._timeout, self._in_flight = timeout, in_flight
        self._guard = Guard(url, failures)
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lane] = WeakKeyDictionary()

    @asynccontextmanager
    async def events(self, path: str, body: Body) -> AsyncIterator[AsyncIterator[Iterator[object]]]:
        """The events of a streamed answer, as JSON values, those together that come together. Leaving early
        ends the request. An answer that is not streamed is one event.

        Raises:
            ModelUnavailable: busy, out of reach, too slow, or broken off; it may help to try again.
            ModelFailure, ModelSpecError, PromptTooLong: it does not.
        """
        async with self._client() as client:
            stream = await client.post(
                path, body=body, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object]
            )
            try:
                async with aclosing(self._events(stream.response.aiter_bytes())) as events:
                    yield events
            finally:
                await stream.close()

    async def answer(self, path: str, body: Body) -> object:
        """The JSON value of an answer in one piece. Raises what `events` does."""
        async with self._client() as client:
            answer = await client.post(path, body=body, cast_to=httpx2.Response)
            return read_json(answer.content)

    def answer_now(self, path: str, body: Body) -> object:
        """The same for code that can't wait: it blocks. An event loop may already run in its thread."""
        answer = Future[object]()

        def ask() -> None:
            try:
                answer.set_result(asyncio.run(self.answer(path, body)))
            except BaseException as error:  # raised again where the answer is waited for
                answer.set_exception(error)

        # A daemon, so that an interrupted program need not wait for the server.
        Thread(target=ask, name="askance-count", daemon=True).start()
        return answer.result()

    async def _events(self, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[Iterator[object]]:
        values = Values()
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield self._sound(values.take(chunk))
                    if values.is_done:
                        await _drain(chunks)
                        break
        except httpx2.TimeoutException:
            raise self._failures.of_time() from None
        except (OSError, httpx2.RequestError) as error:
            raise self._failures.of_cut(error) from None
        yield self._sound(values.rest())

    def _sound(self, events: Iterator[object]) -> Iterator[object]:
        for event in events:
            if isinstance(event, Mapping) and event.get("error"):
                raise self._failures.of_event(event["error"])
            yield event

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[openai.AsyncOpenAI]:
        """One that nobody else uses, for one request."""
        lane = await self._lane()
        async with lane.places:
            client = lane.idle.pop() if lane.idle else self._new_client()
            try:
                with _Told(self._failures):
                    async with asyncio.timeout(self._timeout):
                        yield client
            finally:
                lane.idle.append(client)

    async def _lane(self) -> _Lane:
        loop = asyncio.get_running_loop()
        if loop not in self._lanes:
            # A loop that shuts down closes what it knows of asynchronous generators.
            opened = self._open(loop)
            lane = self._lanes[loop] = await anext(opened)
            lane.opened = opened
            _OPEN.add(opened)
        return self._lanes[loop]

    async def _open(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[_Lane]:
        lane = _Lane(asyncio.Semaphore(self._in_flight), [])
        try:
            yield lane
        finally:
            self._lanes.pop(loop, None)
            if lane.opened is not None:
                _OPEN.discard(lane.opened)
            for client in lane.idle:
                await client.close()

    def _new_client(self) -> openai.AsyncOpenAI:
        http = openai.DefaultAsyncHttpxClient(verify=_ssl_context(), **self._guard.settings)
        # A request's time is watched as a whole: timers of every read take time of their own.
        timeout = openai.Timeout(None, connect=min(_CONNECT_SECONDS, self._timeout))
        return openai.AsyncOpenAI(
            base_url=self._url,
            api_key=self._key or _NO_KEY,
            max_retries=0,
            timeout=timeout,
            http_client=http,
        )


@cache
def _ssl_context() -> SSLContext:
    """It takes longer to make than all else of a client."""
    return httpx2.create_ssl_context()


async def _drain(chunks: AsyncGenerator[bytes]) -> None:
    with suppress(TimeoutError, httpx2.RequestError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in chunks:
                pass


class _Told:
    """Turns what the client raises into our errors.

    The client's own are left out of what is shown: a server may repeat in them what it was sent.
    """

    def __init__(self, failures: Failures) -> None:
        self._failures = failures

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        failure = self._failure(error)
        if failure is not None:
            raise failure from None

    def _failure(self, error: BaseException | None) -> AskanceError | None:
        if isinstance(error, openai.APIStatusError):
            return self._failures.of_status(error.status_code, error.body, error.response.headers)
        if isinstance(error, TimeoutError | openai.APITimeoutError):
            return self._failures.of_time()
        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__
            return cause if isinstance(cause, AskanceError) else self._failures.of_reach(cause)
        if isinstance(error, openai.APIError):
            return self._failures.of_event(error.body or error.message)
        if isinstance(error, NoJson):
            return self._failures.of_no_json(str(error), error.beginning)
        return None
