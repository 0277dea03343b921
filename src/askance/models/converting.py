"""Convert weights once on each machine, into a folder that is created atomically."""

import atexit
import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path

from askance.core.errors import ModelSpecError
from askance.core.notes import doing, note
from askance.storage.durable_files import sync

_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_MEGABYTES = 600
_REMEDY = "name another folder in the environment variable ASKANCE_CACHE"


def convert_once(target: Path, write: Callable[[Path], None], *, megabytes: int = _MEGABYTES) -> Path:
    """Return the folder `target`. If it does not exist, create it with the files that `write` writes.

    The folder is created atomically (see `atomic_folder`), so it never holds only some of its files. If
    several processes need the folder at the same time, one process writes it and the others wait. If the
    cache is read-only, as in some containers, the folder is created in the system's temporary folder, for
    this process only, and a note reports this.

    Args:
        megabytes: The size of the files, for the message about a full disk.

    Returns:
        `target`, or the temporary folder that replaces it.

    Raises:
        ModelSpecError: The disk is full, or the folder can't be created for another reason.
    """
    folder = target.parent
    try:
        return _convert(target, write)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
            free = shutil.disk_usage(existing).free // 1_000_000
            raise ModelSpecError(
                f"the cache folder {str(folder)!r} can't be written: {_reason(error)}. The weights take "
                f"{megabytes} MB, and {free} MB are free there: free some, or {_REMEDY}."
            ) from error
        refused = f"the cache folder {str(folder)!r} can't be written ({error.strerror})"
    try:
        inside = _temporary_folder() / target.name
        if not inside.is_dir():
            note(
                "cache",
                f"{refused}: the weights are converted into {str(inside.parent)!r} for this process alone. "
                f"To keep them, {_REMEDY}.",
            )
        return _convert(inside, write)
    except OSError as error:
        raise ModelSpecError(
            f"{refused}, and the folder for temporary files can't either ({_reason(error)}). The weights "
            f"take {megabytes} MB: {_REMEDY}."
        ) from error


def _convert(target: Path, write: Callable[[Path], None]) -> Path:
    """Return the folder. If it does not exist, acquire its lock and create it, unless another process has."""
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f"{target.name}.lock")):
            if not target.is_dir():
                with doing("converting the weights, once on this machine"), atomic_folder(target) as incoming:
                    write(incoming)
    return target


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is then synced and renamed to `target`, or removed after an error.

    Raises:
        OSError: The folder can't be created or written.
    """
    partial = target.with_name(f"{target.name}.partial")
    # A process that was killed may have left this folder.
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        for path in (*partial.iterdir(), partial):
            sync(path)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync(target.parent)


def _locked(path: Path) -> AbstractContextManager[object]:
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        return lock.acquire(blocking=False)
    except Timeout:
        with doing("waiting for another process that converts the weights"):
            return lock.acquire()


@cache
def _temporary_folder() -> Path:
    """Return a folder that is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="askance-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _reason(error: OSError) -> str:
    # Errors of numpy and torch have no `strerror`, only a text.
    return error.strerror or f"only a part was written ({error})"
