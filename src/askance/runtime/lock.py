"""One writer to a folder at a time."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

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
    try:
        held = FileLock(path, blocking=False).acquire()
    except Timeout as error:
        raise BlockingIOError(f"{path} is held by another process") from error
    with held:
        try:
            yield
        finally:
            # By now the folder may have been moved, and others may keep something in those above it.
            with suppress(OSError):
                if [each.name for each in folder.iterdir()] == [lock_name]:
                    path.unlink()
                    for each in made:
                        each.rmdir()
