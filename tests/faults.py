"""Faults at the operations of a process on its files: kills, power failures, errors and full disks.

An operation is whatever changes the files below a folder: opening a file for writing, a write, an `fsync`,
closing a file that was open for writing, truncating, renaming, linking or removing a file, making or removing
a folder, and an SQL statement that writes. The n-th operation has a fault of one kind:

    kill    The process dies before the operation. If it is a write, half of it has been written.
    stop    As `kill`, and beside the folder are copies of it, as each of `STOPS` leaves it.
    error   The operation fails with EIO, and the next ones succeed.
    full    The disk is full from the operation on. If it is a write, half of it has been written.

A scenario runs with n = 1, 2, 3 … until it ends without a fault, each time in a child of a process that has
no threads of its own. What C libraries write is not seen: see `limited_files`.
"""

import builtins
import errno
import io
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager
from functools import partial
from pathlib import Path

STOPS = "kill", "power", "names"
"""A kill; a power failure, after which only those files and names are left that an `fsync` confirmed; and one
before which each name was on the disk at once, but not the content of its file."""
FAULTLESS, FAULTY, ODD = 0, 3, 4
"""Exit statuses of children. `in_child` returns ODD if the work raised an exception."""
OF_PATHS = "link", "mkdir", "remove", "rename", "replace", "rmdir", "truncate", "unlink"
OF_FILES = "close", "fsync", "ftruncate"
WITHOUT_SPACE = {"close", "ftruncate", "remove", "rename", "replace", "rmdir", "truncate", "unlink"}
"""What still succeeds on a full disk."""


def in_child(work) -> int:
    """Return the exit status of a child that does `work`: negative for a signal; ODD if it raised."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        os._exit(work())
    except BaseException:
        traceback.print_exc()
        os._exit(ODD)


def results_of(module: str, *arguments: str) -> dict:
    """Run `python -m module FOLDER arguments` in a new folder, and return the JSON that it prints."""
    in_memory = Path("/dev/shm")  # where there is one, hundreds of scenarios wait for no disk
    with tempfile.TemporaryDirectory(dir=in_memory if os.access(in_memory, os.W_OK) else None) as folder:
        command = [sys.executable, "-m", module, folder, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    results = json.loads(ended.stdout)
    assert results["flaws"] == [], ended.stderr[-2000:]
    return results


@contextmanager
def limited_files(size_bytes: int, kind: str = "error"):
    """Let no file of this process exceed a size: any library's write fails, or kills the process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_CORE)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if kind == "kill" else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, before[1][1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[0][1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[0])
        resource.setrlimit(resource.RLIMIT_CORE, before[1])


class Disk:
    """What a power failure leaves of a folder: the content of each inode at its last `fsync`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.contents, self.names = folder, dict[int, bytes](), dict[int, dict[str, int]]()
        for path in (folder, *folder.rglob("*")):
            self.sync(path)

    def sync(self, path: Path) -> None:
        if path.is_dir():
            self.names[path.stat().st_ino] = {child.name: child.stat().st_ino for child in path.iterdir()}
        else:
            self.contents[path.stat().st_ino] = path.read_bytes()

    def leave(self, target: Path, stop: str) -> None:
        """Make the folder `target` with what one of `STOPS` leaves."""
        now = Disk(self.folder)
        names, contents = (self if stop == "power" else now).names, (now if stop == "kill" else self).contents

        def keep(inode: int, path: Path) -> None:
            if inode in now.names | names:
                path.mkdir()
                for name, child in names.get(inode, {}).items():
                    keep(child, path / name)
            else:
                path.write_bytes(contents.get(inode, b""))

        keep(self.folder.stat().st_ino, target)


class Faults:
    """Counts the operations below a folder, of which the n-th has a fault."""

    def __init__(self, folder: Path, number: int, kind: str) -> None:
        self.left, self.kind, self.folder = number, kind, folder
        self.paths = dict[int, Path]()
        self.disk = Disk(folder) if kind == "stop" else None

    def has_passed(self) -> bool:
        """Return whether the fault has happened, even if the work was completed."""
        return self.left <= 0

    def install(self) -> None:
        """Replace the functions that change files, in this process."""
        for name in OF_PATHS:
            setattr(os, name, partial(self.change, name, getattr(os, name)))
        for name in OF_FILES:
            setattr(os, name, partial(self.change_file, name, getattr(os, name)))
        os.open = partial(self.open_descriptor, os.open)
        os.write, os.pwrite = partial(self.write, os.write), partial(self.write, os.pwrite)
        io.open = builtins.open = partial(self.open, io.open)
        sqlite3.connect = partial(sqlite3.connect, factory=self.database())

    def step(self, name: str, kind_of_error: type = OSError) -> None:
        """Count an operation, which has the fault if it is the n-th."""
        self.left -= 1
        if self.left == 0:
            self.die()
        if self.left == 0 or (self.left < 0 and self.kind == "full" and name not in WITHOUT_SPACE):
            number = errno.ENOSPC if self.kind == "full" else errno.EIO
            message = f"{os.strerror(number)} at {name}"
            raise OSError(number, message) if kind_of_error is OSError else kind_of_error(message)

    def die(self) -> None:
        """End the process if faults of the kind do so."""
        if self.disk:
            self.left = -1  # what is done here has no faults
            for stop in STOPS:
                self.disk.leave(self.folder.with_name(stop), stop)
        if self.kind in ("kill", "stop"):
            os.kill(os.getpid(), signal.SIGKILL)

    def change(self, name, real, path, *given, **named):
        if self.is_below(path) and not named.get("dir_fd"):
            self.step(name)
        return real(path, *given, **named)

    def change_file(self, name, real, descriptor, *given):
        path = self.paths.get(descriptor)
        if path is None:
            return real(descriptor, *given)
        if name == "close":  # a descriptor is free after an error, too
            del self.paths[descriptor]
            real(descriptor)
        if name != "close" or not path.is_dir():
            self.step(name)
        if name == "ftruncate":
            real(descriptor, *given)
        if name == "fsync" and self.disk:
            self.disk.sync(path)
        return None

    def write(self, real, descriptor, content, *given) -> int:
        if descriptor not in self.paths:
            return real(descriptor, content, *given)
        if self.left != 1 or self.kind == "error":
            self.step("write")
            return real(descriptor, content, *given)
        num_bytes = real(descriptor, content[: len(content) // 2], *given)
        self.left = 0
        self.die()
        return num_bytes

    def open_descriptor(self, real, path, flags, *given, **named) -> int:
        is_below, is_new = self.is_below(path) and not named, not os.path.lexists(path)
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        if is_below and writes:
            self.step("open")
        descriptor = real(path, flags, *given, **named)
        if is_below and (writes or Path(path).is_dir()):
            self.paths[descriptor] = Path(path)
            if is_new and self.disk:  # the inode may have been that of another file
                self.disk.contents.pop(Path(path).stat().st_ino, None)
        return descriptor

    def open(self, real, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, **named):
        if not {*mode} & {*"wax"} or not self.is_below(file):
            return real(file, mode, buffering, encoding, errors, newline, **named)
        flags = {"w": os.O_TRUNC, "x": os.O_EXCL, "a": os.O_APPEND}[mode[0]] | os.O_CREAT
        binary = io.BufferedWriter(RawFile(os.open(file, flags | os.O_WRONLY, 0o666), "wb", closefd=False))
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding, errors, newline)

    def database(self) -> type:
        faults = self

        class Database(sqlite3.Connection):
            def execute(self, sql, *given):
                if not sql.startswith(("SELECT", "PRAGMA")):
                    faults.step("SQL", sqlite3.OperationalError)
                return super().execute(sql, *given)

            def executemany(self, sql, *given):
                faults.step("SQL", sqlite3.OperationalError)
                return super().executemany(sql, *given)

            def executescript(self, script):
                statement = ""
                for line in script.splitlines(keepends=True):
                    statement += line
                    if sqlite3.complete_statement(statement):
                        self.execute(statement)
                        statement = ""

            def commit(self):
                faults.step("SQL", sqlite3.OperationalError)
                super().commit()

        return Database

    def is_below(self, path) -> bool:
        return isinstance(path, str | os.PathLike) and str(self.folder) in os.fspath(path)


class RawFile(io.FileIO):
    """A file whose writes and whose end pass through the functions that `Faults` replaces."""

    def write(self, content) -> int:
        return os.write(self.fileno(), content)

    def close(self) -> None:
        if not self.closed:
            descriptor = self.fileno()
            super().close()
            os.close(descriptor)
