"""A file that only grows, and keeps what it has acknowledged, whatever happens to the process or the disk."""

import os
from collections.abc import Sequence
from pathlib import Path

from askance.runtime.durable import sync


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

    @property
    def size_bytes(self) -> int:
        """Of what is acknowledged."""
        return self._size

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
