"""One writer to a folder at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock `path`, a file that is made for it. The lock goes with the process, also after a kill.

    Raises:
        BlockingIOError: another process holds it.
        OSError: the file can't be made.
    """
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file.fileno()).st_nlink == 0:
            raise BlockingIOError(f"{path}: the process that held it has just removed it")
        yield
