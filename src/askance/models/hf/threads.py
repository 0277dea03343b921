"""How many threads torch computes with.

On a CPU, OpenMP keeps a team of threads for every thread that ever computed. With more of them than cores
they no longer wait awake for their next piece of work, and a model that runs in a thread of its own takes
twice as long: who loads it must not leave a team behind.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _Teams(threading.local):
    """What a thread has settled.

    Attributes:
        num_blocks: of `no_team` that it is in.
        is_settled: whether it has its number of threads.
    """

    num_blocks = 0
    is_settled = False


_teams = _Teams()
_lock = threading.Lock()
_num_blocks, _num_threads = 0, 0
"""Of `no_team` in all threads; how many threads there were before the first of them."""


@contextmanager
def no_team() -> Iterator[None]:
    """Compute in the calling thread alone. Threads that first compute meanwhile need `settle_team`.

    What torch is told in one thread is also the number for threads that begin later.
    """
    global _num_blocks, _num_threads
    with _lock:
        if not _num_blocks:
            _num_threads = torch.get_num_threads()
        _num_blocks += 1
        torch.set_num_threads(1)
    _teams.num_blocks += 1
    try:
        yield
    finally:
        _teams.num_blocks -= 1
        with _lock:
            _num_blocks -= 1
            torch.set_num_threads(1 if _teams.num_blocks else _num_threads)


def settle_team() -> None:
    """Give a thread, when it first computes, the threads that it has outside of others' `no_team`."""
    if _teams.is_settled or _teams.num_blocks:
        return
    with _lock:
        if _num_blocks:
            torch.set_num_threads(_num_threads)
    _teams.is_settled = True
