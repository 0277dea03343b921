"""The process that reads files: a file that ends it or takes too long is skipped, and the others are read."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from askance.core.errors import ParameterError
from askance.core.notes import noted
from askance.retrieval.index import reader_process
from askance.retrieval.index.documents import read_documents
from askance.retrieval.index.formats.content import DocumentRow, UnreadableFile
from askance.retrieval.index.reader_process import ReaderProcess, ReadingLimits

WORDS = ["quokka words"]
TOO_LONG = "takes longer than 1 seconds to read (--file-seconds)"
TOO_LARGE = "needs more memory than reading one file may take (--file-memory)"


def outcome(rows):
    """Return the texts of the rows of a file, or the reason why it can't be read."""
    try:
        return [row.text for row in rows]
    except UnreadableFile as error:
        return str(error)


def is_running(pid):
    status = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def reader():
    with closing(ReaderProcess(ReadingLimits(seconds=1))) as reader:
        yield reader


@pytest.fixture
def files(tmp_path):
    """Return a file, and one whose reader waits for ever: a named pipe that nobody writes to."""
    good, slow = tmp_path / "good.txt", tmp_path / "slow.txt"
    good.write_text("quokka words")
    os.mkfifo(slow)
    return good, slow


def test_files_that_are_read_ahead_keep_their_reasons(reader, tmp_path, files):
    """Rows of two files wait in the pipe, the third file ends the process, and new ones read the others."""
    good, slow = files
    named = [reader.read(path) for path in (good, good, slow, tmp_path / "missing.txt", good, slow, good)]
    missing = "can't be read: No such file or directory"
    assert [outcome(rows) for rows in named] == [WORDS, WORDS, TOO_LONG, missing, WORDS, TOO_LONG, WORDS]


def test_a_pause_of_whoever_takes_the_rows_counts_for_no_file(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02}.txt").write_text(f"{number} " * 100_000)
    documents = read_documents([tmp_path], limits=ReadingLimits(seconds=1))
    first = next(documents)
    (tmp_path / "19.txt").unlink()  # files are read ahead, but not so many
    time.sleep(1.2)
    *others, last = documents
    assert [first.id, *(each.id for each in others)] == [f"{number:02}.txt" for number in range(19)]
    assert last.reason == "can't be read: No such file or directory"


def test_a_process_that_is_killed_while_it_reads(reader, files):
    good, slow = files
    assert outcome(reader.read(good)) == WORDS
    threading.Timer(0.3, reader._process.kill).start()
    assert outcome(reader.read(slow)).startswith("ended the process that read it (SIGKILL), perhaps")
    assert outcome(reader.read(good)) == WORDS
    reader._process.kill()
    reader._process.wait()
    assert outcome(reader.read(good)) == WORDS, "the process ended between two files"


@pytest.mark.parametrize("executable", ["/nowhere/python", "", "/bin/false"])
def test_where_no_process_can_start_a_note_says_so(reader, files, monkeypatch, executable):
    good, _ = files
    monkeypatch.setattr(sys, "executable", executable)
    notes = []
    with noted(lambda name, text: notes.append(text)):
        assert [outcome(rows) for rows in (reader.read(good), reader.read(good))] == [WORDS, WORDS]
    (told,) = notes
    assert told.startswith("files are read without limits, since no process starts for it: ")


@pytest.mark.parametrize(
    ("then", "line", "right"),
    [
        (ZeroDivisionError("no luck"), 0, "can't be read (ZeroDivisionError: no luck)"),
        (ParameterError("no extra"), 0, "no extra"),
        (MemoryError(), 0, TOO_LARGE),
        (["changed once"], 0, ["changed once"]),
        (["new!!", "newer!", "newest"], 0, "it changes while it is read; index it again when it is complete"),
        (["x" * 2_000_000, "x"], 1, "it changed while it was read; index it again"),
    ],
)
def test_errors_and_changes_while_a_file_is_read(reader, files, monkeypatch, then, line, right):
    def read_file(path):
        yield DocumentRow("", path.read_text(), line=line)
        if isinstance(then, Exception):
            raise then
        if then:
            path.write_text(then.pop(0))

    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(reader_process, "read_file", read_file)
    with noted(lambda name, text: None):
        assert outcome(reader.read(files[0])) == right


def test_the_process_ends_with_its_parent_whatever_it_reads(files):
    program = (
        "import sys; from pathlib import Path; from askance.retrieval.index.reader_process import *\n"
        "reader = ReaderProcess(); reader._start()\n"
        "print(reader._process.pid, flush=True)\n"
        "list(reader.read(Path(sys.argv[1])))"
    )
    starting = [sys.executable, "-c", program, files[1]]
    with subprocess.Popen(starting, stdout=subprocess.PIPE, text=True) as parent:
        pid = parent.stdout.readline()
        os.kill(parent.pid, signal.SIGKILL)
    for _ in range(100):
        if not is_running(int(pid)):
            return
        time.sleep(0.05)
    pytest.fail("the process goes on")


@pytest.mark.parametrize("given", [{"seconds": 0}, {"seconds": float("nan")}, {"memory": 0.1}])
def test_limits_out_of_range(given):
    with pytest.raises(ParameterError, match=r"--file-(seconds|memory) .*: give a number from"):
        ReadingLimits(**given)
