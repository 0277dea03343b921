"""The limits of the server, and the admission of questions: how many run, how many wait, who is sent away."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from askance.serve.errors import ApiError

QUESTION_CHARACTERS = 20_000
"""The length of a question with the conversation before it, and of the query of a search."""
PASSAGES = 100
"""The number of passages that one search may return."""
_WEIGHT = 0.2
"""The weight of the latest question in the running mean of seconds."""


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
        send_seconds: The time that a client may take to read one event of a stream.
        traces, trace_events: The number of traces kept, and the number of events in all of them together.
        connections: The number of open connections. Further ones are refused with 503.
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
        self.running, started = self.running + 1, time.monotonic()
        try:
            yield
        finally:
            self.running -= 1
            self._slots.release()
            self._mean_seconds += _WEIGHT * (time.monotonic() - started - self._mean_seconds)
