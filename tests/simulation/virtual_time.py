"""An event loop whose time is virtual, and a wall clock that jumps.

What sleeps or has a timeout on this loop needs no change: `asyncio` and `anyio` take the time from the loop.
Work for threads runs at once and in place, so that nothing depends on the machine.
"""

import asyncio
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from selectors import DefaultSelector
from unittest import mock

_MOST_TURNS = 100_000
_WITH_DATES = ("askance.ask", "askance.evaluation.run.experiment")


class Stalled(AssertionError):
    """Nothing can happen any more, or things happen without end while no time passes."""


class _Selector(DefaultSelector):
    """A selector that advances the clock of its loop to the next timer instead of waiting."""

    def __init__(self):
        super().__init__()
        self.now, self._num_turns = 0.0, 0

    def select(self, timeout=None):
        self._num_turns = 0 if timeout else self._num_turns + 1
        if timeout is None or self._num_turns > _MOST_TURNS:
            raise Stalled("every task waits for another one" if timeout is None else "time stands still")
        self.now += max(timeout, 0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time."""

    def __init__(self, start=0.0):
        self._clock = _Selector()
        self._clock.now = start
        super().__init__(self._clock)

    def time(self):
        return self._clock.now

    def run_in_executor(self, executor, call, *given):
        done = self.create_future()
        try:
            done.set_result(call(*given))
        except Exception as error:
            done.set_exception(error)
        return done


class WallClock:
    """The time of day, which may jump. `reset` sets its distance from the real time, in seconds."""

    def __init__(self):
        self.ahead = 0.0

    def now(self, zone=UTC):
        return datetime.fromtimestamp(self.time(), zone)

    def time(self, _real=time.time):
        return _real() + self.ahead

    @contextmanager
    def set_up(self):
        """Replace the wall clock of askance, and forbid the clock of the machine for decisions."""

        clock, own_thread = time.monotonic, threading.get_ident()

        def forbidden():
            if threading.get_ident() == own_thread:
                raise AssertionError("time.monotonic decides here: ask the running event loop for the time")
            return clock()

        dates = [mock.patch(f"{module}.datetime", self) for module in _WITH_DATES]
        with dates[0], dates[1], mock.patch("time.time", self.time), mock.patch("time.monotonic", forbidden):
            yield


def run(main, start=0.0):
    """Run a coroutine in virtual time that begins at `start`, and return its result."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start)) as runner:
        return runner.run(main)
