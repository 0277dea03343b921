"""Files that hold what they have acknowledged, whatever happens to the process or the disk.

A file is there whole or not at all (`write_atomically`), or it only grows (`AppendOnlyFile`), and one
process at a time writes to a folder (`locked_folder`). Lines of records, traces and judgements carry a
checksum of all else that is in them:

    {"checksum": "1f0c93ab5d7e2a44", "number": 1, "id": "q1", …}

A wrong bit is found wherever the line is read. Lines that were written before there were checksums are known
by what they begin with, which no single wrong bit makes of a line that has one.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_CHECKSUM = re.compile(rb'\{"checksum": "([0-9a-f]{16})", ')


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


@contextmanager
def locked_folder(folder: Path, lock_name: str) -> Iterator[None]:
    """Hold the lock of a folder, which is made if need be; it goes with the process, also after a kill.

    Folders made for it are removed again if nothing but the lock is in them in the end.

    Raises:
        BlockingIOError: another process holds it.
        OSError: the folder or the lock can't be made.
    """
    from filelock import FileLock, Timeout

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


class AppendOnlyFile:
    """Bytes at the end of a file, all of them or none.

    Args:
        size_bytes: cut the file to this length first; what lies behind it was never acknowledged.

    Raises:
        OSError: it can't be opened for writing.
    """

    def __init__(self, path: Path, size_bytes: int | None = None) -> None:
        is_new = not path.exists()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        self._size = os.fstat(self._descriptor).st_size
        if size_bytes is not None and size_bytes < self._size:
            self._cut(size_bytes)
        if is_new:
            sync(path.parent)

    def append(self, chunks: Sequence[bytes]) -> int:
        """Write all chunks and wait until the disk has them; gives the offset of the first.

        Raises:
            OSError: the disk is full or broken; the file is as it was before.
        """
        start, content = self._size, memoryview(b"".join(chunks))
        try:
            at = start
            while content:
                written = os.pwrite(self._descriptor, content, at)
                at, content = at + written, content[written:]
            os.fsync(self._descriptor)
        except OSError:
            self._cut(start)
            raise
        self._size = at
        return start

    def close(self) -> None:
        """Nothing can be appended any more."""
        os.close(self._descriptor)

    def _cut(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)
        os.fsync(self._descriptor)
        self._size = size_bytes


def whole_lines(content: bytes) -> bytes:
    """`content` up to its last line break: a line without one was being written when its writer stopped."""
    return content[: content.rfind(b"\n") + 1]


def checksum(content: bytes) -> str:
    """16 hexadecimal digits that stand for some bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def sealed(text: bytes) -> bytes:
    """The JSON object `text` with the checksum of what follows as its first field."""
    rest = text[1:]
    return b'{"checksum": "' + checksum(rest).encode() + b'", ' + rest


def unsealed(text: bytes, *, old: bytes | tuple[bytes, ...]) -> bytes:
    """What `sealed` was given.

    Args:
        old: what a text begins with that was written before there were checksums; it is given as it is.

    Raises:
        ValueError: the text is damaged; the message says what is wrong with it.
    """
    if text.startswith(old):
        return text
    found = _CHECKSUM.match(text)
    if found is None:
        raise ValueError("it does not begin with a checksum")
    rest = text[found.end() :]
    if checksum(rest).encode() != found[1]:
        raise ValueError("its checksum is not that of its content")
    return b"{" + rest


def _is_sealed(text: bytes) -> bool:
    found = _CHECKSUM.match(text)
    return found is not None and checksum(text[found.end() :]).encode() == found[1]


class DamagedLine(ValueError):
    """A line that is not what was written; the message says what is wrong with it.

    Attributes:
        number: the line's, from 1.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def unsealed_lines(content: bytes, *, old: bytes | tuple[bytes, ...]) -> tuple[list[bytes], int]:
    """What `sealed` was given for each whole line of a file that only grows, and how many bytes these have.

    A line without its line break was being written when its writer stopped, and is left out.

    Raises:
        DamagedLine: a line, or its line break, is damaged.
    """
    whole = whole_lines(content)
    lines, opened = whole.split(b"\n")[:-1], []
    for number, line in enumerate(lines, start=1):
        try:
            opened.append(unsealed(line, old=old))
        except ValueError as error:
            raise DamagedLine(number, str(error)) from error
    if _is_sealed(content[len(whole) : -1]):
        raise DamagedLine(len(lines) + 1, "its line break is damaged")
    return opened, len(whole)
