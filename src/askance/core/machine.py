"""Failures of the machine, told from those of files and programs: no memory, and no room to write."""

import errno
import re

from askance.core.errors import AskanceError, MachineFailure

_MEMORY = re.compile(
    r"out of memory|not enough memory|bad_alloc|"
    r"(?:cannot|can't|unable to|failed to) (?:allocate|mmap|map segment)",
    re.IGNORECASE,
)
_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def machine_failure(error: BaseException | None) -> MachineFailure | None:
    """What an error, or what it was raised from, says of the machine; None where it says nothing."""
    first = error
    while error is not None:
        if isinstance(error, MachineFailure):
            return error
        if is_memory(error):
            said = str(error).strip().partition("\n")[0].rstrip(".")
            return MachineFailure(
                f"there is not enough memory ({said or type(error).__name__}): use a smaller model, ask "
                "fewer questions at a time (--in-flight N), or allow more memory (ulimit -v, the container)."
            )
        if isinstance(error, OSError) and error.errno in _ROOM:
            where = error.filename or "what was to be shown"
            told = f"can't write {where}: {error.strerror}. Make room, or write elsewhere."
            return MachineFailure(str(first) if isinstance(first, AskanceError) else told)
        error = error.__cause__
    return None


def is_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out.

    Where it says so in words alone, it must be of a kind that libraries raise: names of files, and what a
    validator finds in them (a subclass of ValueError), may hold the same words.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    in_words = isinstance(error, RuntimeError | ImportError | OSError) or type(error) is ValueError
    return isinstance(error, MemoryError) or (in_words and bool(_MEMORY.search(str(error))))
