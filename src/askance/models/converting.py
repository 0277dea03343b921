"""Convert weights once on each machine, into a folder that is created atomically."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path

from askance.core.errors import ModelSpecError
from askance.core.notes import doing, note
from askance.storage.durable_files import sync

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
    folder, existing = target, next(path for path in target.absolute().parents if path.exists())
    try:
        if not target.is_dir() and not os.access(existing, os.W_OK):
            existing = _temporary_folder()
            folder = existing / target.name
            if not folder.is_dir():
                note(
                    "cache",
                    f"the cache folder {str(target.parent)!r} can't be written: the weights are converted "
                    f"into {str(existing)!r} for this process alone. To keep them, {_REMEDY}.",
                )
        return _convert(folder, write)
    except OSError as error:
        # Errors of numpy and torch have no `strerror`, only a text.
        reason = error.strerror or f"only a part was written ({error})"
        free = shutil.disk_usage(existing).free // 1_000_000
        raise ModelSpecError(
            f"the folder {str(folder.parent)!r} can't be written: {reason}. The weights take {megabytes} MB, "
            f"and {free} MB are free there: free some, or {_REMEDY}."
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
