"""Chooses how many threads compute a pass: fewer where other processes use the cores.

The threads of a pass wait for each other a thousand times a token. Where one of them has lost its core to
another process, all of them wait for a time slice of the scheduler: two threads on two busy cores are several
times slower than one. The number of threads changes no number that is computed.
"""

import math
import os
import time

_MOST_THREADS = 512
"""Llama.cpp ends the process where it is asked for more."""
_LOST_CORES = 0.4
"""A pass that got so many cores less than it has threads has lost them to other processes. Threads that spin
for each other count as computing."""
_LEAST_SECONDS = 1e-3
"""A shorter pass tells nothing, since it waits for threads to wake."""
_WAIT = 20.0
"""All threads are tried again after so many times the duration of the pass that lost cores."""


class Team:
    """The number of threads for the next pass, learnt from the passes before.

    A process that computes with all its threads takes as many seconds of the processor as there are threads
    in each second. Where it got fewer, there are as many threads less from the next pass on, and now and then
    a pass is tried with all of them.

    Args:
        most: the largest number of threads.
        adapts: whether fewer may be used.
    """

    def __init__(self, most: int, *, adapts: bool = True) -> None:
        self._most, self._adapts = most, adapts and most > 1
        self.num_threads = most
        self._tried_again_at = self._began = self._cpu_began = 0.0

    def begin(self) -> int:
        """The number of threads for a pass that begins now."""
        if self._adapts:
            self._began, self._cpu_began = time.monotonic(), time.process_time()
            if self.num_threads < self._most and self._began >= self._tried_again_at:
                self.num_threads = self._most
        return self.num_threads

    def end(self) -> None:
        """The pass is over."""
        seconds = time.monotonic() - self._began
        if self._adapts and self.num_threads > 1 and seconds >= _LEAST_SECONDS:
            lost = self.num_threads - (time.process_time() - self._cpu_began) / seconds
            if lost > _LOST_CORES:
                # A core that is shared by two is lost by half.
                self.num_threads = max(1, self.num_threads - math.ceil(2 * lost))
                self._tried_again_at = self._began + seconds + _WAIT * seconds


def default_team() -> Team:
    """As many threads as there are cores for this process, or as OMP_NUM_THREADS says.

    Where the environment says how threads wait, they may sleep, which looks like cores that are lost: then
    there are always as many.
    """
    told = os.environ.get("OMP_NUM_THREADS", "")
    most = int(told) if told.isdecimal() and int(told) else num_cores()
    return Team(
        min(most, _MOST_THREADS), adapts=not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}
    )


def num_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
