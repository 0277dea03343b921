"""Files that are there whole or not at all, also after a crash."""

import os
from pathlib import Path


def write_atomically(path: Path, text: str, *, temporary: Path | None = None) -> None:
    """Replace the file `path` by `text` in one step: a reader finds the old or the new one, never a part.

    Args:
        temporary: the name it is written under first, in the same folder; made up if not given.

    Raises:
        OSError: it can't be written; the old file is as it was.
    """
    incoming = temporary or path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # Half a character has no place in UTF-8: better an escape than to lose all else with it.
        with incoming.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        incoming.replace(path)
    finally:
        incoming.unlink(missing_ok=True)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
