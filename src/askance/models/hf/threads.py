"""How many threads torch computes with."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def no_team() -> Iterator[None]:
    """Compute in the calling thread alone.

    On a CPU, OpenMP keeps a team of threads for every thread that ever computed. With more of them than
    cores they no longer wait awake for their next piece of work, and a model that runs in a thread of its own
    takes twice as long: who loads it must not leave a team behind.
    """
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
