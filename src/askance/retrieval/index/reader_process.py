"""The process that reads files, apart from the one that indexes them, within limits of memory and time.

A file may be made to exhaust the memory, to take hours, or to end the process that reads it. Here such a file
is an `UnreadableFile` with the reason, and the next file is read in a new process. The process is no sandbox
for programs: it bounds what reading costs.

The process reads ahead: it reads the next files while the rows of the ones before are indexed, until the pipe
is full. A file that changes while it is read is read again.
"""

import os
import pickle
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from queue import Queue
from subprocess import DEVNULL, PIPE, Popen
from threading import Thread, Timer
from time import monotonic

from askance.core.errors import InputError, ParameterError
from askance.core.notes import note
from askance.retrieval.index.formats import read_file
from askance.retrieval.index.formats.content import DocumentRow, Rows, UnreadableFile, UnreadPart, whole
from askance.storage.durable_files import file_state

_BATCH_CHARACTERS = 1_000_000
"""The text of a file of rows that is kept until it is known that the file did not change."""
_ROW_CHARACTERS = 200
"""What a row counts for without its text."""
_NUM_TRIES = 3
"""How often a file is read that changes while it is read, and how often a process is started that ends."""
_START_SECONDS = 60.0
_MEMORY = "needs more memory than reading one file may take (--file-memory)"


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """The limits of reading one file.

    Attributes:
        seconds: The time without any result. A file of rows has a result for each million characters, so it
            may take longer.
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


_Reply = list[DocumentRow | UnreadPart] | str
"""Rows of a file or, at its end, the reason why it can't be read; empty if it was read."""


class ReaderProcess:
    """Reads files in a process of its own, which starts with the first file and again after its end.

    Where no process can be started, the files are read in this one, which a note says.
    """

    def __init__(self, limits: ReadingLimits = ReadingLimits()) -> None:
        self._limits = limits
        self._process: Popen[bytes] | None = None
        self._can_start = True
        self._named = deque[Path]()
        self._folder = tempfile.TemporaryDirectory(prefix="askance-reading-", ignore_cleanup_errors=True)

    def close(self) -> None:
        """End the process, and remove its temporary files."""
        self._end()
        self._named.clear()
        self._folder.cleanup()

    def read(self, path: Path) -> Rows:
        """Name a file to the process, and return the rows of the file (see `formats.read_file`).

        Several files may be named before the rows of the first are taken, but rows have to be taken file by
        file, in this order. Taking them raises UnreadableFile if the file can't be read within the limits.
        """
        self._named.append(path)
        if self._process is not None and len(self._named) == 1 and self._process.poll() is not None:
            self._end()  # it ended while there was nothing to read, so no file is the reason
        self._send(path)
        return self._rows(path)

    def _rows(self, path: Path) -> Rows:
        assert path is self._named[0], f"the rows of {self._named[0]} were not taken"
        if self._can_start and self._process is None:
            self._start()
        receive = self._receive if self._process is not None else _replies(path).__next__
        reply: _Reply = []
        try:
            while not isinstance(reply := receive(), str):
                yield from reply
        finally:
            self._named.popleft()
            if not isinstance(reply, str):
                self._end()
        if reply:
            raise UnreadableFile(reply)

    def _start(self) -> None:
        limit = int(self._limits.memory * (1 << 30))
        code = f"import sys; sys.path = {sys.path!r}; from {__name__} import serve; serve({limit})"
        env = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder.name)}
        reason: Exception | None = None
        for _ in range(_NUM_TRIES):
            try:
                self._process = Popen(
                    [sys.executable, "-c", code], env=env, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
                )
                self._receive(_START_SECONDS)
                break
            except (OSError, ValueError, UnreadableFile) as error:
                self._end()
                reason = error
        else:
            self._can_start = False
            note("reader", f"files are read without limits, since no process starts for it: {reason}.")
        for path in self._named:
            self._send(path)

    def _send(self, path: Path) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            with suppress(OSError):  # a process that has ended is noticed when nothing can be received
                pickle.dump(path.absolute(), self._process.stdin)
                self._process.stdin.flush()

    def _receive(self, least_seconds: float = 0.0) -> _Reply:
        """Return the next reply of the process, which has the time of the limits, or `least_seconds`.

        Raises:
            UnreadableFile: The process has ended, or takes too long.
        """
        process, seconds = self._process, max(least_seconds, self._limits.seconds)
        assert process is not None
        assert process.stdout is not None
        watch = Timer(seconds, process.kill)
        started = monotonic()
        watch.start()
        try:
            reply: _Reply = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise UnreadableFile(self._reason_of_end(monotonic() - started >= seconds)) from error
        finally:
            watch.cancel()
        if monotonic() - started >= seconds:  # the watch may have ended the process since
            raise UnreadableFile(self._reason_of_end(is_late=True))
        return reply

    def _reason_of_end(self, is_late: bool) -> str:
        if is_late:
            return f"takes longer than {self._limits.seconds:g} seconds to read (--file-seconds)"
        assert self._process is not None
        code = self._process.wait()
        by = signal.Signals(-code).name if -code in {*signal.Signals} else f"exit code {code}"
        return f"ended the process that read it ({by}), perhaps because it {_MEMORY}"

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
    with os.fdopen(os.dup(1), "wb") as replies, suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever a library prints is no reply
        paths = Queue[Path]()
        Thread(target=_take, args=(paths,), daemon=True).start()
        files = map(_replies, iter(paths.get, None))
        for reply in chain([""], chain.from_iterable(files)):  # the first one says that the process runs
            pickle.dump(reply, replies, pickle.HIGHEST_PROTOCOL)
            replies.flush()


def _take(paths: Queue[Path]) -> None:
    """Queue the paths that the parent process names, and end with it, even while a file is read."""
    with suppress(EOFError, OSError):
        while True:
            paths.put(pickle.load(sys.stdin.buffer))
    os._exit(0)


def _replies(path: Path) -> Iterator[_Reply]:
    """Yield the rows of a file in lists of some length, and then why it can't be read, or an empty string.

    An error of a reader is a reason. The rows are of one state of the file: one that changes is read
    again, unless its first rows were passed on.
    """
    for _ in range(_NUM_TRIES):
        before, reason = file_state(path), ""
        batch, num_characters, is_passed_on = list[DocumentRow | UnreadPart](), 0, False
        try:
            for row in read_file(path):
                if isinstance(row, DocumentRow):
                    row = whole(row)
                    num_characters += _ROW_CHARACTERS + len(row.text) if row.line else 0
                batch.append(row)
                if num_characters > _BATCH_CHARACTERS:
                    yield batch
                    batch, num_characters, is_passed_on = [], 0, True
        except (UnreadableFile, InputError) as error:
            reason = str(error)
        except OSError as error:
            reason = f"can't be read: {error.strerror or error}"
        except MemoryError:
            reason = _MEMORY
        except Exception as error:
            reason = f"can't be read ({type(error).__name__}: {error})"
        has_changed = file_state(path) != before
        if is_passed_on or not has_changed:
            yield batch
            yield "it changed while it was read; index it again" if has_changed else reason
            return
    yield "it changes while it is read; index it again when it is complete"
