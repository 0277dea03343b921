"""One server: requests, how many at a time, and what comes back, which is bounded before it is believed."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import aclosing, suppress
from contextvars import copy_context
from functools import cache
from importlib.util import find_spec
from threading import Thread
from typing import Any, TypeVar

from askance.core.errors import MissingExtra, ModelSpecError

if find_spec("httpx2") is None:
    raise MissingExtra("httpx2", "remote", "a model behind a server")

import httpx2

from askance.models.openai.errors import SHAPE, Failures

MOST_ANSWER_BYTES = 256 << 20
"""An answer of 64,000 tokens, each with 20 alternatives, has some 160 MB as a stream."""
MOST_EVENT_BYTES = 64 << 20
"""The size of an event or of an answer in one piece: 16,000 tokens with 20 alternatives take some 40 MB."""
MOST_ERROR_BYTES = 1 << 20
"""What is read of an error; the rest of it is left."""
_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.1
"""For the end of an answer whose last event has come: a connection that is read to its end is used again."""
_MOST_REDIRECTS = 20
_MOST_PORT = 65_535

Body = Mapping[str, Any]
T = TypeVar("T")
_ssl_context = cache(httpx2.create_ssl_context)
"""Made once: it takes longer to make than all else of a client."""

_Client = tuple[httpx2.AsyncClient, asyncio.Semaphore]
_CLIENTS: dict[tuple[asyncio.AbstractEventLoop, "Connection"], tuple[_Client, AsyncGenerator[_Client]]] = {}
"""The client of each loop and connection, with what closes it, also where the model is forgotten by then."""


class Connection:
    """Requests to one server about one model.

    Every event loop has a client of its own, which is closed when the loop shuts down.

    Args:
        model: as the server knows it.
        url: such as ``http://host/v1``.
        key: of the server; empty for none.
        in_flight: most requests of one event loop at a time; others wait for a place.

    Attributes:
        root: the URL of what servers have beside the protocol.
        failures: what is raised.

    Raises:
        ModelSpecError: a URL that can't be used.
    """

    def __init__(self, model: str, url: str, key: str, in_flight: int = 1) -> None:
        self.url, self.root = url, url.removesuffix("/v1")
        self.failures = Failures(f"{model}@{url}", url, key)
        self._origin = _read_url(url).origin
        self._key, self._in_flight = key, in_flight

    async def values(self, path: str, body: Body | None, seconds: float) -> AsyncGenerator[object]:
        """The JSON values of an answer: of each event of a streamed one, else the only one.

        Leaving early ends the request; close the generator for it.

        Args:
            path: below the server's URL, or a whole URL.
            body: of a POST request; None for a GET request.
            seconds: most of the whole request.

        Raises:
            ModelUnavailable: busy, out of reach, too slow, or broken off; it may help to try again.
            ModelFailure, ModelSpecError, PromptTooLong: it does not.
        """
        client, places = await self._client()
        request = client.build_request("GET" if body is None else "POST", path, json=body)
        try:
            async with (
                places,
                asyncio.timeout(seconds),
                aclosing(await self._send(client, request)) as response,
                aclosing(self._texts(response)) as texts,
            ):
                async for text in texts:
                    yield self._value(text)
        except (TimeoutError, httpx2.TimeoutException):
            raise self.failures.unavailable(
                "did not answer in time: give it more (?timeout=SECONDS after the model), or ask fewer "
                "questions at a time (--in-flight N)."
            ) from None
        except httpx2.SSEError:
            raise self.failures.of_answer(f"an event of more than {MOST_EVENT_BYTES >> 20} MiB") from None
        except (OSError, httpx2.RequestError) as error:
            raise self.failures.unavailable(
                f"can't be reached, or cut the connection ({self.failures.said(str(error)) or 'no reason'}): "
                "see that it runs and that the URL is right, and see its log. Some cut the connection where "
                "a prompt does not fit into their context window."
            ) from None

    async def answer(self, path: str, body: Body | None, seconds: float) -> object:
        """The first of them, of an answer in one piece."""
        async with aclosing(self.values(path, body, seconds)) as values:
            return await anext(values, None)

    def _value(self, text: str) -> object:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise self.failures.of_no_json(text) from None
        if isinstance(value, Mapping) and value.get("error"):
            raise self.failures.of_event(value["error"])
        return value

    async def _send(self, client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """The answer, with nothing of it read; of a redirect that is followed nothing ever is.

        Raises:
            ModelSpecError: a redirect that leads to another server, or loses the prompt.
        """
        for _ in range(_MOST_REDIRECTS):
            response = await client.send(request, stream=True)
            if response.next_request is None:
                return response
            await response.aclose()
            method, request = request.method, response.next_request
            if request.method != method or request.url.origin != self._origin:
                raise self.failures.misnamed(
                    f"sends on to {self.failures.said(str(request.url))}, where prompt and key were not "
                    "meant to go: write openai:MODEL@URL with that address if it is the server's own."
                )
        raise httpx2.TooManyRedirects(f"more than {_MOST_REDIRECTS} redirects", request=request)

    async def _texts(self, response: httpx2.Response) -> AsyncGenerator[str]:
        if response.is_error:
            told = await _beginning(response, MOST_ERROR_BYTES)
            raise self.failures.of_status(response.status_code, told, response.headers)
        coding = response.headers.get("content-encoding", "identity")
        if coding.strip().lower() != "identity":  # a few compressed bytes can be any number of plain ones
            raise self.failures.of_answer(f"a compressed answer ({coding}), which was not asked for")
        response.encoding = "utf-8"
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            text = await _beginning(response, MOST_EVENT_BYTES + 1)
            if len(text) > MOST_EVENT_BYTES:
                raise self.failures.of_answer(f"an event of more than {MOST_EVENT_BYTES >> 20} MiB")
            yield text.decode("utf-8-sig", "replace")
            return
        events = aiter(httpx2.EventSource(response, MOST_EVENT_BYTES))
        async for event in events:
            if response.num_bytes_downloaded > MOST_ANSWER_BYTES:
                raise self.failures.of_answer(f"an answer of more than {MOST_ANSWER_BYTES >> 20} MiB")
            if event.data.startswith("[DONE]"):
                await _drain(events)
                return
            if event.data:
                yield event.data

    async def _client(self) -> _Client:
        place = asyncio.get_running_loop(), self
        if place not in _CLIENTS:
            # A loop that shuts down closes the asynchronous generators that it knows of.
            opened = self._open()
            _CLIENTS[place] = await anext(opened), opened
        return _CLIENTS[place][0]

    async def _open(self) -> AsyncGenerator[_Client]:
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        async with httpx2.AsyncClient(
            base_url=self.url,
            headers={"Accept-Encoding": "identity", **key},
            verify=_ssl_context(),
            # A request's time is watched as a whole: timers of every read take time of their own.
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_keepalive_connections=self._in_flight),
        ) as client:
            try:
                yield client, asyncio.Semaphore(self._in_flight)
            finally:
                _CLIENTS.pop((asyncio.get_running_loop(), self), None)


def _read_url(url: str) -> httpx2.URL:
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ModelSpecError(f"the URL of a server can't be read ({error}): {SHAPE}.") from error
    if parts.userinfo or parts.query or parts.fragment:
        raise ModelSpecError(
            f"the URL of the server {parts.host} holds a password, a query or a fragment, which traces would "
            f"show: a key is taken from OPENAI_API_KEY; {SHAPE}."
        )
    if not parts.host or parts.scheme not in ("http", "https") or (parts.port or 0) > _MOST_PORT:
        raise ModelSpecError(f"{url!r} is no URL of a server: {SHAPE}.")
    return parts


async def _beginning(response: httpx2.Response, most_bytes: int) -> bytes:
    found = bytearray()
    async for chunk in response.aiter_raw():
        found += chunk
        if len(found) >= most_bytes:
            break
    return bytes(found[:most_bytes])


async def _drain(events: AsyncIterator[object]) -> None:
    """Read what follows the last event; some servers keep the connection open without ending the answer."""
    with suppress(TimeoutError, httpx2.RequestError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in events:
                pass


def wait_for(call: Coroutine[Any, Any, T]) -> T:
    """What a call gives, for code that can't wait: it blocks. An event loop may already run in its thread."""
    answer, context = Future[T](), copy_context()

    def run() -> None:
        try:
            answer.set_result(context.run(asyncio.run, call))
        except BaseException as error:  # raised again where the answer is waited for
            answer.set_exception(error)

    # A daemon, so that an interrupted program need not wait for the server.
    Thread(target=run, name="askance-wait", daemon=True).start()
    return answer.result()
