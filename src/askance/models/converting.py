"""Weights that are converted once on a machine, into a folder that is there whole or not at all."""

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
    """The folder `target`, made by `write` if it is not there yet.

    It appears whole or not at all, see `whole_folder`. Of several processes one writes and the others wait.
    Where nothing may be written, as in a container whose file system is read-only, the folder is made among
    the temporary files of the system for this process alone, and a note says so.

    Args:
        megabytes: how much room it takes, for the message about a full disk.

    Returns:
        `target`, or the folder in its place.

    Raises:
        ModelSpecError: there is no room, or the folder can't be made for another reason.
    """
    folder = target.parent
    try:
        return _convert(target, write)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
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
    """The folder, which whoever holds its lock writes."""
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_name(f"{target.name}.lock")):
            if not target.is_dir():
                with doing("converting the weights, once on this machine"), whole_folder(target) as incoming:
                    write(incoming)
    return target


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target`, which is synced and renamed in the end, or removed if that fails.

    Raises:
        OSError: it can't be made or written.
    """
    partial = target.with_name(f"{target.name}.partial")
    # A folder of this name was left by a process that was killed.
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
    """A folder that is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="askance-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _reason(error: OSError) -> str:
    # What numpy and torch raise has no reason apart from its text.
    return error.strerror or f"only a part was written ({error})"
