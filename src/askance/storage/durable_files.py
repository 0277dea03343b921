"""Durable files, which keep every acknowledged write through a crash of the process or the machine.

A file is either replaced as a whole (`write_atomically`) or only appended to (`AppendOnlyFile`), and
only one process at a time writes to a folder (`locked_folder`). Lines of records, traces and judgements
contain a checksum of the rest of the line:

    {"checksum": "1f0c93ab5d7e2a44", "number": 1, "id": "q1", …}

Every reader detects a flipped bit.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from askance.core.safe_text import json_line

_CHECKSUM = re.compile(rb'\{"checksum": "([0-9a-f]{16})", ')


def write_atomically(path: Path, text: str | bytes, *, temporary: Path | None = None) -> None:
    """Replace the content of a file in one step, so that readers see the old or the new content.

    Args:
        path: The file.
        text: The new content. A string is encoded as UTF-8.
        temporary: The name to write to first, in the same folder; by default a hidden file.

    Raises:
        OSError: The file can't be written. The old file is unchanged.
    """
    incoming = temporary or path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # UTF-8 can't encode lone surrogates: an escape is better than losing the whole text.
        content = text.encode(errors="backslashreplace") if isinstance(text, str) else text
        with incoming.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        incoming.replace(path)
    finally:
        incoming.unlink(missing_ok=True)
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file, or the directory entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_state(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is changed or replaced, or None if it does not exist."""
    with suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino
    return None


@contextmanager
def locked_folder(folder: Path, lock_name: str) -> Iterator[None]:
    """Hold the lock of a folder, which is created if necessary.

    The lock ends with the process, even if the process is killed. Folders that were created for the lock are
    removed at the end if they contain nothing else.

    Args:
        folder: The folder to lock.
        lock_name: The name of the lock file in it.

    Raises:
        BlockingIOError: Another process holds the lock.
        OSError: The folder or the lock can't be created.
    """
    from filelock import FileLock, Timeout

    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for new_folder in created:
        sync(new_folder.parent)
    path = folder / lock_name
    try:
        held = FileLock(path, blocking=False).acquire()
    except Timeout as error:
        raise BlockingIOError(f"{path} is held by another process") from error
    with held:
        try:
            yield
        finally:
            # The folder may have been moved by now, and its parents may contain other files.
            with suppress(OSError):
                if [entry.name for entry in folder.iterdir()] == [lock_name]:
                    path.unlink()
                    for new_folder in created:
                        new_folder.rmdir()


class AppendOnlyFile:
    """A file to which bytes are appended atomically.

    Args:
        path: The file, which is created if necessary.
        size_bytes: The length to truncate the file to first, since later bytes were never acknowledged. None
            keeps the whole file.

    Raises:
        OSError: The file can't be opened for writing.
    """

    def __init__(self, path: Path, size_bytes: int | None = None) -> None:
        is_new = not path.exists()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        self._size = os.fstat(self._descriptor).st_size
        if size_bytes is not None and size_bytes < self._size:
            self._truncate(size_bytes)
        if is_new:
            sync(path.parent)

    def append(self, chunks: Sequence[bytes]) -> int:
        """Append all chunks, wait until they are on disk, and return the offset of the first chunk in bytes.

        Raises:
            OSError: The disk is full or broken. The file is unchanged.
        """
        start, content = self._size, memoryview(b"".join(chunks))
        try:
            offset = start
            while content:
                num_written = os.pwrite(self._descriptor, content, offset)
                offset, content = offset + num_written, content[num_written:]
            os.fsync(self._descriptor)
        except OSError:
            self._truncate(start)
            raise
        self._size = offset
        return start

    def close(self) -> None:
        """Close the file. An error is of no importance, because all that was appended is on disk."""
        with suppress(OSError):
            os.close(self._descriptor)

    def _truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)
        os.fsync(self._descriptor)
        self._size = size_bytes


def checksum(content: bytes) -> str:
    """Return the checksum of some bytes as 16 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def sealed(text: bytes) -> bytes:
    """Return the JSON object `text` with a checksum of its fields inserted as the first field."""
    rest = text[1:]
    return b'{"checksum": "' + checksum(rest).encode() + b'", ' + rest


def sealed_line(content: object) -> bytes:
    """Return an object as a line of JSON with a checksum, including the line break."""
    return sealed(json_line(content).encode()) + b"\n"


def unsealed(text: bytes) -> bytes:
    """Verify the checksum of a JSON object, and return the object as it was passed to `sealed`.

    Raises:
        ValueError: The object is damaged. The message names the problem.
    """
    match = _CHECKSUM.match(text)
    if match is None:
        raise ValueError("it does not begin with a checksum")
    rest = text[match.end() :]
    if checksum(rest).encode() != match[1]:
        raise ValueError("its checksum does not match its content")
    return b"{" + rest


class DamagedLine(ValueError):
    """A damaged line. The message names the problem.

    Attributes:
        number: The number of the line, from 1.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def unsealed_lines(content: bytes) -> tuple[list[bytes], int]:
    """Verify the checksums of the lines of an append-only file, and return the lines without their checksums.

    A last line without a line break is left out, since its writer was interrupted.

    Returns:
        The lines, and their total length in the file in bytes.

    Raises:
        DamagedLine: A line or its line break is damaged.
    """
    whole = content[: content.rfind(b"\n") + 1]
    lines, objects = whole.split(b"\n")[:-1], []
    for number, line in enumerate(lines, start=1):
        try:
            objects.append(unsealed(line))
        except ValueError as error:
            raise DamagedLine(number, str(error)) from error
    try:
        unsealed(content[len(whole) : -1])
    except ValueError:
        return objects, len(whole)
    raise DamagedLine(len(lines) + 1, "its line break is damaged")
