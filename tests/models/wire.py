"""A network in virtual time whose server sends given bytes, in pieces of any size, and ends in any way."""

import asyncio
import json
from dataclasses import dataclass, field
from unittest import mock

import httpcore2
from tests.simulation import virtual_time

MOST_REQUESTS = 200


@dataclass
class Wire(httpcore2.AsyncNetworkBackend):
    """A server that gives the bytes of `reply` to each request, and the connections to it.

    `ends` says what follows the bytes: "closed", "reset", or "open" for nothing, for ever.
    """

    reply: object
    size: int = 1 << 16
    ends: str = "closed"
    requests: list = field(default_factory=list)
    pools: list = field(default_factory=list)
    num_open: int = 0

    async def connect_tcp(self, *given, **named):
        self.num_open += 1
        return _Stream(self)

    def pool(self, **named):
        self.pools.append(_POOL(network_backend=self, **named))
        return self.pools[-1]

    def run(self, work):
        """Return a coroutine's result and the seconds that pass. Each connection is then closed or idle."""

        async def timed():
            try:
                return await work, asyncio.get_running_loop().time()
            finally:
                for connection in (each for pool in self.pools for each in pool.connections):
                    assert connection.is_idle() or connection.is_closed(), connection

        with mock.patch("httpcore2.AsyncConnectionPool", self.pool):
            try:
                return virtual_time.run(timed())
            finally:
                assert not self.num_open, "a connection outlives its event loop"


_POOL = httpcore2.AsyncConnectionPool


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, wire):
        self.wire, self.sent, self.left, self.is_open = wire, b"", b"", True

    async def write(self, buffer, timeout=None):
        self.sent += buffer
        head, _, body = self.sent.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if b"\r\n\r\n" in self.sent and len(body) >= int(length or 0):
            path = head.split(b" ")[1].decode()
            self.wire.requests.append((path, json.loads(body or b"{}")))
            assert len(self.wire.requests) < MOST_REQUESTS, "it asks without end"
            self.sent, self.left = b"", self.wire.reply(*self.wire.requests[-1])

    async def read(self, max_bytes, timeout=None):
        size = min(self.wire.size, max_bytes)
        piece, self.left = self.left[:size], self.left[size:]
        if not piece and self.wire.ends == "open":
            await asyncio.sleep(1e9)
        if not piece and self.wire.ends == "reset":
            raise httpcore2.ReadError("connection reset")
        return piece

    async def aclose(self):
        self.wire.num_open -= self.is_open
        self.is_open = False
