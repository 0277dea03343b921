"""Connections: how many may be open, how long one may wait for a request, and the files that they need."""

import sys
from asyncio import Transport
from asyncio.events import TimerHandle
from contextlib import suppress
from dataclasses import replace
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from askance.serve.errors import ApiError
from askance.serve.limits import Limits
from askance.serve.responses import Json

BACKLOG = 512
"""The number of connections that the operating system holds until the server accepts them, all at once."""
_MOST_REFUSED = 2 * BACKLOG
"""The number of refused connections that may wait for their end; further ones are closed at once."""
_OTHER_FILES = 512
"""The number of files that the server may open besides connections: indexes, weights, caches."""
_LINGER_SECONDS = 1.0
_BUSY = ApiError(
    503,
    "the server has as many open connections as it may have: try again in a moment.",
    type="server_error",
    code="too_many_connections",
    headers={"Retry-After": "1", "Connection": "close"},
)


class LimitedConnection(H11Protocol):
    """A connection that is refused with 503 if too many are open, and closed if no request arrives in time.

    Args:
        refused: The connections of the server that were refused and are not closed yet.
    """

    def __init__(self, limits: Limits, refused: set["LimitedConnection"], **given: Any) -> None:
        super().__init__(**given)
        self._limits, self._refused = limits, refused
        self._timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
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

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._refused.discard(self)
        super().connection_lost(exc)

    def _wait_for_head(self) -> TimerHandle:
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
        response = Json(_BUSY.body, _BUSY.status_code, _BUSY.headers)
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
    return replace(limits, connections=max(1, allowed - others))
