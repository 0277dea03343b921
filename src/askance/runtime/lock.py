"""One writer to a folder at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from askance.runtime.durable import sync


@contextmanager
def locked_folder(folder: Path, lock_name: str) -> Iterator[None]:
    """Hold the lock of a folder, which is made if need be; it goes with the process, also after a kill.

    Folders made for it are removed again if nothing but the lock is in them in the end.

    Raises:
        BlockingIOError: another process holds it.
        OSError: the folder or the lock can't be made.
    """
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in made:
        sync(each.parent)
    path = folder / lock_name
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file.fileno()).st_nlink == 0:
            raise BlockingIOError(f"{path}: the process that held it has just removed it")
        try:
            yield
        finally:
            # By now the folder may have been moved, and others may keep something in those above it.
            with suppress(OSError):
                if [each.name for each in folder.iterdir()] == [lock_name]:
                    path.unlink()
                    for each in made:
                        each.rmdir()
