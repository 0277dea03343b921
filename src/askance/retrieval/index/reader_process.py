"""The process that reads files, apart from the one that indexes them, within limits of memory and time.

A file may be made to exhaust the memory, to take hours, or to end the process that reads it. Here such a file
is an `UnreadableFile` with the reason, and the next file is read in a new process. The process is no sandbox
for programs: it bounds what reading costs.
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Thread, Timer
from time import monotonic
from types import TracebackType
from typing import Any, Self

from askance.core.errors import InputError, ParameterError
from askance.core.notes import note
from askance.retrieval.index.formats import DocumentRow, Rows, UnreadableFile, UnreadPart, read_file
from askance.retrieval.index.formats.content import whole

_BATCH_CHARACTERS = 100_000
_ROW_CHARACTERS = 200
"""What a row counts for without its text."""
_BATCH_SECONDS = 0.5
_GB = 1 << 30
_MEMORY = "needs more memory than the {:g} GB that reading one file may take (--file-memory)"


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """The limits of reading one file.

    Attributes:
        seconds: The time without any result. A file of rows has results all along, so it may take longer.
        memory: The address space of the process in GB, where the system can limit it (not on macOS and
            Windows).

    Raises:
        ParameterError: A limit is out of range.
    """

    seconds: float = 60.0
    memory: float = 4.0

    def __post_init__(self) -> None:
        for name, least in (("seconds", 1), ("memory", 0.5)):
            if not least <= (value := getattr(self, name)) <= 1e6:
                raise ParameterError(f"--file-{name} {value:g}: give a number from {least} to 1,000,000.")


class ReaderProcess:
    """Reads files in a process of its own, which starts with the first file and again after its end.

    Where no process can be started, the files are read in this one, which a note says.
    """

    def __init__(self, limits: ReadingLimits = ReadingLimits()) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._can_start = True
        self._folder = tempfile.TemporaryDirectory(prefix="askance-reading-", ignore_cleanup_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._folder.cleanup()

    def read(self, path: Path) -> Rows:
        """Yield the rows of a file (see `formats.read_file`).

        Raises:
            UnreadableFile: The file can't be read, or not within the limits.
        """
        if self._can_start and self._process is None:
            self._start()
        if self._process is None:
            yield from _rows_or_reason(path)
            return
        is_read = False
        try:
            self._send(str(path.absolute()))
            while not isinstance(reply := self._receive(), str):
                yield from reply
            is_read = True
        finally:
            if not is_read:
                self._end()
        if reply:
            raise UnreadableFile(reply)

    def _start(self) -> None:
        limit = int(self._limits.memory * _GB)
        code = f"import sys; sys.path = {sys.path!r}; from {__name__} import serve; serve({limit})"
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        folders = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder.name)
        reason = "it ended at once"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], env={**os.environ, **folders}, **pipes
            )
            if self._receive() == "":
                return
        except (OSError, ValueError, UnreadableFile) as error:
            reason = str(error)
        self._end()
        self._can_start = False
        note("reader", f"files are read without limits, since no process can be started for it: {reason}.")

    def _send(self, path: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):  # a process that has ended is noticed when nothing can be received
            pickle.dump(path, self._process.stdin)
            self._process.stdin.flush()

    def _receive(self) -> list[DocumentRow | UnreadPart] | str:
        """Return the next rows or, at the end of a file, the reason why it can't be read, or an empty string.

        Raises:
            UnreadableFile: The process has ended, or takes too long.
        """
        process = self._process
        assert process is not None
        assert process.stdout is not None
        watch = Timer(self._limits.seconds, process.kill)
        started = monotonic()
        watch.start()
        try:
            reply: list[DocumentRow | UnreadPart] | str = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise UnreadableFile(self._reason_of_end(monotonic() - started)) from error
        finally:
            watch.cancel()
        if monotonic() - started >= self._limits.seconds:  # the watch may have ended the process since
            raise UnreadableFile(self._reason_of_end(self._limits.seconds))
        return reply

    def _reason_of_end(self, seconds: float) -> str:
        if seconds >= self._limits.seconds:
            return f"takes longer than {self._limits.seconds:g} seconds to read (--file-seconds)"
        assert self._process is not None
        code = self._process.wait()
        by = signal.Signals(-code).name if -code in {*signal.Signals} else f"exit code {code}"
        memory = _MEMORY.format(self._limits.memory)
        return f"ended the process that read it ({by}), perhaps because it {memory}"

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def serve(num_bytes: int) -> None:
    """Read the files that the parent process names, within some memory, until it closes its pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with (
        os.fdopen(os.dup(1), "wb") as replies,
        Path(os.devnull).open("wb") as nowhere,
        suppress(OSError),
    ):
        os.dup2(nowhere.fileno(), 1)  # whatever a library prints is no reply

        def reply(given: list[DocumentRow | UnreadPart] | str) -> None:
            pickle.dump(given, replies, pickle.HIGHEST_PROTOCOL)
            replies.flush()

        paths = Queue[str]()
        Thread(target=_take, args=(paths,), daemon=True).start()
        reply("")
        while True:
            path, reason = paths.get(), ""
            try:
                for batch in _batches(_rows_or_reason(Path(path))):
                    reply(batch)
            except UnreadableFile as error:
                reason = str(error)
            except MemoryError:
                reason = _MEMORY.format(num_bytes / _GB)
            reply(reason)


def _take(paths: Queue[str]) -> None:
    """Queue the paths that the parent process names, and end with it, even while a file is read."""
    with suppress(EOFError, OSError):
        while True:
            paths.put(pickle.load(sys.stdin.buffer))
    os._exit(0)


def _rows_or_reason(path: Path) -> Rows:
    """Yield the rows of a file of whole characters, and turn what a reader raises into `UnreadableFile`."""
    try:
        for row in read_file(path):
            yield whole(row) if isinstance(row, DocumentRow) else row
    except (UnreadableFile, MemoryError):
        raise
    except OSError as error:
        raise UnreadableFile(f"can't be read: {error.strerror or error}") from error
    except InputError as error:
        raise UnreadableFile(str(error)) from error
    except Exception as error:
        raise UnreadableFile(f"can't be read ({type(error).__name__}: {error})") from error


def _batches(rows: Rows) -> Iterator[list[DocumentRow | UnreadPart]]:
    """Yield the rows in lists of some length, none of which is held back for long."""
    batch, num_characters, started = list[DocumentRow | UnreadPart](), 0, monotonic()
    for row in rows:
        batch.append(row)
        num_characters += _ROW_CHARACTERS + (len(row.text) if isinstance(row, DocumentRow) else 0)
        if num_characters > _BATCH_CHARACTERS or monotonic() - started > _BATCH_SECONDS:
            yield batch
            batch, num_characters, started = [], 0, monotonic()
    if batch:
        yield batch
