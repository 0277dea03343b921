"""The limits of the server: of questions that run and wait, and of open connections."""

import asyncio
import math
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from askance.serve.errors import ApiError

QUESTION_CHARACTERS = 20_000
"""The length of a question with the conversation before it, and of the query of a search."""
PASSAGES = 100
"""The number of passages that one search may return."""
QUERIES, QUERY_CHARACTERS = 512, 1_000
"""The number of queries of one request to `/retrieve`, and the length of each."""
_WEIGHT = 0.2
"""The weight of the latest question in the running mean of seconds."""
BACKLOG = 512
"""The number of connections that the operating system holds until the server accepts them, all at once."""
_MOST_REFUSED = 2 * BACKLOG
"""The number of refused connections that may wait for their end; further ones are closed at once."""
_OTHER_FILES = 512
"""The number of files that the server may open besides connections: indexes, weights, caches."""
_LINGER_SECONDS = 1.0
_NETWORK_BITS = 64
_BUSY = ApiError(
    503,
    "the server, or your address, has as many open connections as it may have: try again in a moment.",
    type="server_error",
    code="too_many_connections",
    headers={"Retry-After": "1", "Connection": "close"},
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the server.

    Attributes:
        in_flight: The number of questions answered at the same time.
        waiting: The number of questions that may wait. Further ones are refused with 429.
        request_bytes: The size of a request's body.
        document_bytes: The size of the body of a request that adds documents.
        head_seconds: The time within which the headers of a request have to arrive on a new connection.
        body_seconds: The time within which a request's body has to arrive.
        send_seconds: The time that a client may take to read one event of a stream, and in which it has to
            read something of what is sent.
        traces, trace_events: The number of traces kept, and the number of events in all of them together.
        connections: The number of open connections. Further ones are refused with 503.
        connections_per_address: The number of open connections of one address, so that one client can't keep
            all others out. The addresses of a network of IPv6 (/64) count as one.
    """

    in_flight: int = 1
    waiting: int = 32
    request_bytes: int = 1_000_000
    document_bytes: int = 16_000_000
    head_seconds: float = 30.0
    body_seconds: float = 30.0
    send_seconds: float = 30.0
    traces: int = 256
    trace_events: int = 200_000
    connections: int = 1_000
    connections_per_address: int = 250


class Admission:
    """The questions that run and wait.

    Attributes:
        running, waiting: The numbers of questions that run and wait.
    """

    def __init__(self, limits: Limits) -> None:
        self.running = self.waiting = 0
        self._limits, self._slots = limits, asyncio.Semaphore(limits.in_flight)
        self._mean_seconds = 1.0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot, and hold it inside the block.

        Raises:
            ApiError: 429, because too many questions wait already. Retry-After estimates when a place in the
                queue will be free, from the mean duration of recent questions.
        """
        if self.running >= self._limits.in_flight and self.waiting >= self._limits.waiting:
            seconds = max(1, math.ceil(self._mean_seconds / self._limits.in_flight))
            raise ApiError(
                429,
                f"{self.running} questions are being answered and {self.waiting} wait: try again in "
                f"{seconds} s.",
                type="rate_limit_error",
                code="too_many_questions",
                headers={"Retry-After": str(seconds)},
            )
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        clock = asyncio.get_running_loop().time
        self.running, started = self.running + 1, clock()
        try:
            yield
        finally:
            self.running -= 1
            self._slots.release()
            self._mean_seconds += _WEIGHT * (clock() - started - self._mean_seconds)


class LimitedConnection(H11Protocol):
    """A connection that is refused with 503 if too many are open, and closed if its client is too slow.

    It is closed if no request arrives in time, or if nothing is read of what is sent.

    Args:
        refused: The connections of the server that were refused and are not closed yet.
    """

    def __init__(self, limits: Limits, refused: set["LimitedConnection"], **given: Any) -> None:
        super().__init__(**given)
        self._limits, self._refused = limits, refused
        self._timer: asyncio.TimerHandle | None = None
        self._network = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._network = network_of(self.client)
        neighbours = [each for each in self.connections if getattr(each, "_network", "") == self._network]
        most_of_network = self._limits.connections_per_address if self._network else math.inf
        if len(self.connections) > self._limits.connections or len(neighbours) > most_of_network:
            self._refuse()
        else:
            self._timer = self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        if self in self._refused:
            self.transport.close()
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # the head is complete
            self._stop_waiting()
        elif self._timer is None:
            self._timer = self._wait_for_head()

    def pause_writing(self, size: float = math.inf) -> None:
        """Wait until the client reads, and close the connection if it reads nothing for some time.

        Args:
            size: The number of bytes that were unsent before that time.
        """
        super().pause_writing()
        if (left := self.transport.get_write_buffer_size()) >= size:
            self.transport.abort()
        else:
            self._unread = self.loop.call_later(self._limits.send_seconds, self.pause_writing, left)

    def resume_writing(self) -> None:
        self._unread.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._refused.discard(self)
        super().connection_lost(exc)

    def _wait_for_head(self) -> asyncio.TimerHandle:
        return self.loop.call_later(self._limits.head_seconds, self.timeout_keep_alive_handler)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self) -> None:
        """Send the response, and close the connection once a request has arrived, or after a second.

        A request that arrives after the end would make the client's system drop the response.
        """
        self.connections.discard(self)
        response = _BUSY.response
        events = (
            h11.Response(status_code=response.status_code, headers=response.raw_headers),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        if len(self._refused) >= _MOST_REFUSED:
            self.transport.close()
            return
        self._refused.add(self)
        with suppress(OSError):  # the client has left already
            self.transport.write_eof()
        self._timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)


def network_of(client: tuple[str, int] | None) -> str:
    """Return the address of a client, or its network if it has one to itself; empty if it is unknown."""
    host = client[0] if client else ""
    with suppress(ValueError):
        address = ip_address(host)
        if address.version == 6 and not address.ipv4_mapped:
            return str(ip_network((int(address), _NETWORK_BITS), strict=False))
    return host


def with_open_files(limits: Limits) -> Limits:
    """Raise the number of files that this process may open to what the limits need.

    Returns:
        The limits, with fewer connections if the operating system does not allow so many files.
    """
    if sys.platform == "win32":
        return limits
    import resource

    others = BACKLOG + _MOST_REFUSED + _OTHER_FILES
    needed = limits.connections + others
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return limits
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    connections = max(1, allowed - others)
    of_address = min(limits.connections_per_address, max(1, connections // 4))
    return replace(limits, connections=connections, connections_per_address=of_address)
