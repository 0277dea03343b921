"""HTTP requests to one server, with limits on concurrency, time and the size of responses."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from functools import cache
from importlib.util import find_spec
from typing import Any

from askance.core.errors import MissingExtra, ModelSpecError

if find_spec("httpx2") is None:
    raise MissingExtra("httpx2", "remote", "a model on a server")

import httpx2

from askance.models.openai.errors import SPEC_FORMAT, ServerErrors

MAX_RESPONSE_BYTES = 256 << 20
"""The size limit of a response. A stream of 64,000 tokens, each with 20 alternatives, takes about 160 MB."""
MAX_EVENT_BYTES = 2 << 20
"""The size limit of an event, or of a response that is not streamed. 800 tokens, each with 20 alternatives,
take about 2 MB. Parsing an event keeps all other questions waiting."""
MAX_ERROR_BYTES = 1 << 20
"""The number of bytes of an error response that are read."""
_ERROR_SECONDS = 5.0
"""The time to wait for the body of an error response."""
_CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.1
"""The time to wait for the end of a response after its last event. Reading to the end lets the connection be
reused."""
_MAX_PORT = 65_535

Body = Mapping[str, Any]
_ssl_context = cache(httpx2.create_ssl_context)
"""The SSL context, cached because creating it takes longer than creating the rest of a client."""

_Client = tuple[httpx2.AsyncClient, asyncio.Semaphore]
_CLIENTS: dict[tuple[asyncio.AbstractEventLoop, "Connection"], tuple[_Client, AsyncGenerator[_Client]]] = {}
"""The client of each event loop and connection, with the generator that closes it. The generator must stay
referenced even if the model is garbage-collected."""


class Connection:
    """The HTTP connection to one model on one server.

    Every event loop has its own client, which is closed when the loop shuts down.

    Args:
        url: The base URL, such as ``http://host/v1``.
        key: The API key; empty for none.
        in_flight: The maximum number of concurrent requests in one event loop; further requests wait.

    Attributes:
        root: The base URL without ``/v1``, for endpoints outside the protocol.
        errors: The factory of the errors that requests raise.

    Raises:
        ModelSpecError: The URL is invalid.
    """

    def __init__(self, model: str, url: str, key: str, in_flight: int = 1) -> None:
        self.url, self.root = url, url.removesuffix("/v1")
        self.errors = ServerErrors(f"{model}@{url}", url, key)
        _check_url(url)
        self._key, self._in_flight = key, in_flight

    async def stream_json(self, path: str, body: Body | None, seconds: float) -> AsyncGenerator[object]:
        """Yield the JSON of each event of a stream, or the whole JSON of a response that is not streamed.

        Closing the generator cancels the request.

        Args:
            path: A path below the base URL, or a whole URL.
            body: The body of a POST request; None sends a GET request.
            seconds: The time limit of the whole request.

        Raises:
            ModelUnavailable: The server is busy, unreachable or too slow, or it cut the connection. A retry
                may help.
            ModelFailure, ModelSpecError, PromptTooLong: The request failed, and a retry does not help.
        """
        client, semaphore = await self._client()
        request = client.build_request("GET" if body is None else "POST", path, json=body)
        try:
            async with (
                semaphore,
                asyncio.timeout(seconds),
                aclosing(await _send(client, request)) as response,
                aclosing(self._event_texts(response)) as texts,
            ):
                async for text in texts:
                    yield self._parse_json(text)
        except (TimeoutError, httpx2.TimeoutException):
            raise self.errors.unavailable(
                "did not answer in time: give it more time (?timeout=SECONDS after the model), or ask fewer "
                "questions at a time (--in-flight N)."
            ) from None
        except httpx2.SSEError:
            raise self.errors.invalid_response(f"an event of more than {MAX_EVENT_BYTES >> 20} MiB") from None
        except (OSError, httpx2.RequestError) as error:
            raise self.errors.unavailable(
                f"can't be reached, or cut the connection ({self.errors.redact(str(error)) or 'no reason'}): "
                "check that it runs and that the URL is right, and see its log. Some servers cut the "
                "connection when a prompt does not fit into their context window."
            ) from None

    async def fetch_json(self, path: str, body: Body | None, seconds: float) -> object:
        """Return the JSON of a response that is not streamed (see `stream_json`)."""
        async with aclosing(self.stream_json(path, body, seconds)) as values:
            return await anext(values, None)

    def _parse_json(self, text: str) -> object:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise self.errors.not_json(text) from None
        if isinstance(value, Mapping) and value.get("error"):
            raise self.errors.from_event(value["error"])
        return value

    async def _event_texts(self, response: httpx2.Response) -> AsyncGenerator[str]:
        if response.next_request is not None:
            raise self.errors.spec_error(
                f"redirects to {self.errors.redact(str(response.next_request.url))}, where prompt and key "
                "were not meant to go: write openai:MODEL@URL with that address if it is the server's own."
            )
        if response.is_error:
            body = bytearray()
            # The status says most. A body that stalls or breaks off must not hide it.
            with suppress(TimeoutError, OSError, httpx2.RequestError):
                async with asyncio.timeout(_ERROR_SECONDS):
                    await _read_up_to(response, MAX_ERROR_BYTES, body)
            raise self.errors.from_status(response.status_code, bytes(body), response.headers)
        coding = response.headers.get("content-encoding", "identity")
        if coding.strip().lower() != "identity":  # A small body may decompress to any size.
            raise self.errors.invalid_response(f"a compressed answer ({coding}), which was not asked for")
        response.encoding = "utf-8"
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            text = bytearray()
            await _read_up_to(response, MAX_EVENT_BYTES + 1, text)
            if len(text) > MAX_EVENT_BYTES:
                raise self.errors.invalid_response(f"an event of more than {MAX_EVENT_BYTES >> 20} MiB")
            yield text.decode("utf-8-sig", "replace")
            return
        events = aiter(httpx2.EventSource(response, MAX_EVENT_BYTES))
        async for event in events:
            if response.num_bytes_downloaded > MAX_RESPONSE_BYTES:
                raise self.errors.invalid_response(f"an answer of more than {MAX_RESPONSE_BYTES >> 20} MiB")
            if event.data.startswith("[DONE]"):
                await _drain(events)
                return
            if event.data:
                yield event.data

    async def _client(self) -> _Client:
        owner = asyncio.get_running_loop(), self
        if owner not in _CLIENTS:
            # An event loop that shuts down closes its asynchronous generators.
            generator = self._open()
            _CLIENTS[owner] = await anext(generator), generator
        return _CLIENTS[owner][0]

    async def _open(self) -> AsyncGenerator[_Client]:
        authorization = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        async with httpx2.AsyncClient(
            base_url=self.url,
            headers={"Accept-Encoding": "identity", **authorization},
            verify=_ssl_context(),
            # One timeout covers the whole request, since a timer for every read is slow.
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_keepalive_connections=self._in_flight),
        ) as client:
            try:
                yield client, asyncio.Semaphore(self._in_flight)
            finally:
                _CLIENTS.pop((asyncio.get_running_loop(), self), None)


def _check_url(url: str) -> None:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ModelSpecError(f"the URL of a server can't be read ({error}): {SPEC_FORMAT}.") from error
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ModelSpecError(
            f"the URL of the server {parsed.host} holds a password, a query or a fragment, which traces "
            f"would show: put the key into OPENAI_API_KEY, and {SPEC_FORMAT}."
        )
    if not parsed.host or parsed.scheme not in ("http", "https") or (parsed.port or 0) > _MAX_PORT:
        raise ModelSpecError(f"{url!r} is no URL of a server: {SPEC_FORMAT}.")


async def _send(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    """Send a request, and once more if the server was just closing the connection that is reused for it.

    llama.cpp's server closes each connection after a stream, without saying so before.
    """
    events = list[str]()

    async def note(name: str, _: object) -> None:
        events.append(name)

    request.extensions["trace"] = note
    try:
        return await client.send(request, stream=True)
    except (httpx2.NetworkError, httpx2.RemoteProtocolError):
        if any("connect_tcp" in name for name in events):
            raise
        return await client.send(request, stream=True)


async def _read_up_to(response: httpx2.Response, max_bytes: int, content: bytearray) -> None:
    """Add the body of a response to `content`, but at most `max_bytes`."""
    async for chunk in response.aiter_raw():
        content += chunk[: max_bytes - len(content)]
        if len(content) >= max_bytes:
            break


async def _drain(events: AsyncIterator[object]) -> None:
    """Read a response to its end after the last event, but only for a short time.

    Some servers never close the response.
    """
    with suppress(TimeoutError, httpx2.RequestError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in events:
                pass
