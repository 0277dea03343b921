"""Files that exhaust time or memory, or end the process that reads them: each is skipped, the others read."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.retrieval.hostile import nested_forms

from askance.core.errors import ParameterError
from askance.core.notes import noted
from askance.retrieval.index import reader_process
from askance.retrieval.index.documents import Document, read_documents
from askance.retrieval.index.formats import UnreadableFile
from askance.retrieval.index.reader_process import ReaderProcess, ReadingLimits

SECONDS = ReadingLimits(seconds=3)


def rows(reader, path):
    return [row.text for row in reader.read(path)]


def is_running(pid):
    status = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.txt"
    path.write_text("quokka words")
    return path


@pytest.fixture
def slow(tmp_path):
    """Return a file whose reader waits for ever: a named pipe that nobody writes to."""
    path = tmp_path / "slow.txt"
    os.mkfifo(path)
    return path


def test_a_file_without_end_is_given_up_and_the_next_one_is_read(good, slow):
    with ReaderProcess(ReadingLimits(seconds=1)) as reader:
        assert rows(reader, good) == ["quokka words"]
        with pytest.raises(UnreadableFile, match=r"takes longer than 1 seconds to read \(--file-seconds\)"):
            rows(reader, slow)
        assert rows(reader, good) == ["quokka words"]


def test_a_file_that_exhausts_the_memory_is_named_with_the_limit(tmp_path, good):
    if sys.platform != "linux":
        pytest.skip("only Linux limits the memory of a process")
    path = tmp_path / "form.pdf"
    path.write_bytes(nested_forms())
    with ReaderProcess(ReadingLimits(seconds=60, memory=0.6)) as reader:
        with pytest.raises(UnreadableFile, match=r"needs more memory than the 0\.6 GB .*--file-memory"):
            rows(reader, path)
        assert rows(reader, good) == ["quokka words"]


def test_a_process_that_is_killed_from_outside(good, slow):
    with ReaderProcess(SECONDS) as reader:
        assert rows(reader, good) == ["quokka words"]
        threading.Timer(0.5, reader._process.kill).start()
        with pytest.raises(UnreadableFile, match=r"ended the process that read it \(SIGKILL\)"):
            rows(reader, slow)
        assert rows(reader, good) == ["quokka words"]


def test_a_process_that_is_killed_between_two_files(good):
    with ReaderProcess(SECONDS) as reader:
        assert rows(reader, good) == ["quokka words"]
        reader._process.kill()
        reader._process.wait()
        with pytest.raises(UnreadableFile, match="SIGKILL"):
            rows(reader, good)
        assert rows(reader, good) == ["quokka words"]


@pytest.mark.parametrize("executable", ["/nowhere/python", "", "/bin/false"])
def test_where_no_process_can_start_files_are_read_without_limits_which_a_note_says(
    good, monkeypatch, executable
):
    monkeypatch.setattr(sys, "executable", executable)
    notes = []
    with noted(lambda name, text: notes.append(text)), ReaderProcess(SECONDS) as reader:
        assert rows(reader, good) == ["quokka words"]
        assert rows(reader, good) == ["quokka words"]
    (told,) = notes
    assert told.startswith("files are read without limits, since no process can be started for it: ")


def test_whatever_a_reader_raises_is_a_reason(good, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    def broken(path):
        raise ZeroDivisionError("no luck")
        yield

    monkeypatch.setattr(reader_process, "read_file", broken)
    with (
        noted(lambda name, text: None),
        ReaderProcess() as reader,
        pytest.raises(UnreadableFile, match=r"can't be read \(ZeroDivisionError: no luck\)"),
    ):
        rows(reader, good)


def test_rows_arrive_while_the_rest_is_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"text": "row {number} {"x" * 500}"}}\n' for number in range(3_000)))
    with ReaderProcess(SECONDS) as reader:
        found = reader.read(path)
        assert next(found).text.startswith("row 0 ")
        found.close()
        assert len(rows(reader, path)) == 3_000


def test_the_process_ends_with_its_parent_whatever_it_reads(slow):
    program = (
        "import sys; from pathlib import Path; from askance.retrieval.index.reader_process import *\n"
        "reader = ReaderProcess(); reader._start()\n"
        "print(reader._process.pid, flush=True)\n"
        "list(reader.read(Path(sys.argv[1])))"
    )
    starting = [sys.executable, "-c", program, slow]
    with subprocess.Popen(starting, stdout=subprocess.PIPE, text=True) as parent:
        pid = parent.stdout.readline()
        os.kill(parent.pid, signal.SIGKILL)
    for _ in range(100):
        if not is_running(int(pid)):
            return
        time.sleep(0.05)
    pytest.fail("the process goes on")


def test_a_folder_with_one_hostile_file_is_read(tmp_path, good):
    (tmp_path / "form.pdf").write_bytes(nested_forms())
    limits = ReadingLimits(seconds=2, memory=0.6)
    first, second = read_documents([tmp_path], limits=limits)
    assert (first.source, second.text) == (str(tmp_path / "form.pdf"), "quokka words")
    assert not isinstance(first, Document)


@pytest.mark.parametrize("given", [{"seconds": 0}, {"seconds": float("nan")}, {"memory": 0.1}])
def test_limits_out_of_range(given):
    with pytest.raises(ParameterError, match=r"--file-(seconds|memory) .*: give a number from"):
        ReadingLimits(**given)
