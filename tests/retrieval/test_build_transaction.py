"""After any interruption of a build, the old or the new index is there: complete, never a mixture."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
from tests.retrieval.conftest import rows_file, snapshot

from askance.core.errors import BadIndex
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index import build_transaction
from askance.retrieval.index.build import build_index
from askance.retrieval.index.build_transaction import open_transaction
from askance.retrieval.index.index_folder import open_index_reader

NUM_ROWS = 1500

BUILD = """
import sys
from pathlib import Path
from askance.retrieval.index import build, build_transaction, document_table, lexical, index_folder
build.CHECKPOINT_PASSAGES = int(sys.argv[3])
"""
BUILD_AND_SAY = (
    BUILD
    + """
started = lambda progress: print("started", flush=True) if progress.documents == 1 else None
build.build_index([Path(sys.argv[1])], Path(sys.argv[2]), progress=started)
"""
)
DIES = """
import os, signal
owner_name, _, name = sys.argv[4].rpartition(".")
owner = eval(owner_name)
real, calls = getattr(owner, name), [int(sys.argv[5])]
def deadly(*given, **named):
    if calls[0] == 0 and sys.argv[6] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = real(*given, **named)
    if calls[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    calls[0] -= 1
    return result
setattr(owner, name, deadly)
"""
"""Kills the process before or after a call of a function: the function, the number of the call, when."""
BUILD_AND_DIE = f"{BUILD}{DIES}build.build_index([Path(sys.argv[1])], Path(sys.argv[2]))\n"


def start(script, *given):
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def rows_of(version):
    return [(str(number), f"{version} row {number}") for number in range(NUM_ROWS)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a file of rows, and an index of them that is only ever copied."""
    folder = tmp_path_factory.mktemp("built")
    source = rows_file(folder / "rows.jsonl", *rows_of("old"))
    build_index([source], folder / "index")
    return source, folder / "index"


@pytest.fixture
def old(built, tmp_path):
    """Return a file of rows, and an index that was made of it."""
    return built[0], shutil.copytree(built[1], tmp_path / "index")


def version_of(index, found):
    """Return the version of the index, after checking that it is complete."""
    versions = {id: text.split()[0] for id, text in found(index, "row", NUM_ROWS * 3).items()}
    assert set(versions) == {str(number) for number in range(NUM_ROWS)}
    assert open_index_reader(index).manifest.documents == NUM_ROWS
    (version,) = set(versions.values())
    return version


def test_sigkill_during_the_first_build_leaves_no_index_and_the_next_build_works(tmp_path, write_rows, found):
    source, index = write_rows(tmp_path / "rows.jsonl", *rows_of("new")), tmp_path / "index"
    with start(BUILD_AND_SAY, source, index, 10**9) as process:
        process.stdout.readline()
        process.kill()
    with pytest.raises(BadIndex, match="holds no index"):
        open_index_reader(index)
    assert build_index([source], index).added == NUM_ROWS
    assert version_of(index, found) == "new"


@pytest.mark.parametrize("begin", ["new", "old"])
@pytest.mark.parametrize("kind", ["kill", "error"])
def test_a_fault_at_each_operation_leaves_the_old_or_the_new_index(kind, begin):
    """A rerun makes the same index, and every error is one of ours; see `faults`.

    A build upon an old index does everything that one without does, so every fourth operation suffices for
    the latter.
    """
    step = 1 if begin == "old" else 4
    in_memory = Path("/dev/shm")  # where there is one, hundreds of builds wait for no disk
    with tempfile.TemporaryDirectory(dir=in_memory if os.access(in_memory, os.W_OK) else None) as folder:
        command = [sys.executable, "-m", "tests.retrieval.faults", folder, kind, begin, str(step)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(ended.stdout)
    assert found["flaws"] == [], ended.stderr[-2000:]
    assert found["operations"] >= 40
    assert found["limits"] >= {"kill": 30, "error": 10}[kind] or step > 1


@pytest.mark.parametrize("tables", ["", "documents", "documents and state"])
def test_a_document_table_that_a_kill_left_half_made_is_made_anew(tmp_path, write_rows, tables):
    source, index = write_rows(tmp_path / "rows.jsonl", *rows_of("new")), tmp_path / "index"
    (index / "generation-000001" / "lexical").mkdir(parents=True)
    with closing(sqlite3.connect(index / "generation-000001" / "documents.sqlite")) as ledger:
        if tables:
            ledger.execute("CREATE TABLE documents (number INTEGER PRIMARY KEY)")
        if tables.endswith("state"):
            ledger.execute("CREATE TABLE state (stamp TEXT NOT NULL)")
    assert build_index([source], index).added == NUM_ROWS


def test_a_build_goes_on_from_the_last_checkpoint(tmp_path, write_rows, found):
    source, index = write_rows(tmp_path / "rows.jsonl", *rows_of("new")), tmp_path / "index"
    with start(BUILD_AND_DIE, source, index, 1000, "lexical.LexicalWriter.finish", 0, "before") as process:
        process.wait()
    report = build_index([source], index)
    assert (report.added, report.unchanged) == (0, NUM_ROWS)
    assert version_of(index, found) == "new"


def test_a_build_goes_on_after_a_kill_inside_a_commit(old, write_rows, found, tmp_path):
    """tantivy first writes its deletion files, under names that the next writer uses again."""
    source, index = old
    rows = [*rows_of("new")[:1300], *rows_of("old")[1300:]]
    write_rows(source, *rows)
    with start(BUILD_AND_DIE, source, index, 1000, "lexical.LexicalWriter.commit", 1, "before") as process:
        process.wait()
    twin = shutil.copytree(index, tmp_path / "twin")
    with start(BUILD_AND_DIE, source, twin, 10**9, "lexical.LexicalWriter.commit", 0, "after") as process:
        process.wait()
    left = [path.relative_to(twin) for path in twin.glob("generation-000002/lexical/*.del")]
    left = [path for path in left if not (index / path).exists()]
    assert left
    for path in (*left, Path("generation-000002", "lexical", ".managed.json")):
        shutil.copyfile(twin / path, index / path)
    assert build_index([source], index).unchanged >= 1000
    assert found(index, "row", NUM_ROWS * 3) == dict(rows)


def test_what_was_never_committed_is_removed_from_the_draft_alone(old):
    _, index = old
    lexical = index / "generation-000001" / "lexical"
    names = {path.name for path in lexical.iterdir() if path.suffix != ".lock"}
    segment = next(lexical.glob("*.store")).stem
    left = [f"{segment}.99.del", f"{'0' * 32}.store"]
    for name in (*left, ".tmpAb12Cd"):
        (lexical / name).write_text("left there")
    managed = json.loads((lexical / ".managed.json").read_text())
    (lexical / ".managed.json").write_text(json.dumps(managed + left))
    before = snapshot(index / "generation-000001")
    with open_transaction(index, Analysis()):
        found = (index / "generation-000002" / "lexical").iterdir()
        assert {path.name for path in found if path.suffix != ".lock"} == names
    assert snapshot(index / "generation-000001") == before


def test_what_changes_back_after_a_checkpoint_is_not_lost(old, write_rows, found):
    source, index = old
    write_rows(source, *rows_of("new"))
    with start(
        BUILD_AND_DIE, source, index, 1000, "build_transaction.BuildTransaction.checkpoint", 0, "after"
    ) as process:
        process.wait()
    build_index([write_rows(source, *rows_of("old"))], index)
    assert version_of(index, found) == "old"


def test_a_draft_that_is_half_removed_is_not_gone_on_with(tmp_path, write_rows, found, monkeypatch):
    source, index = write_rows(tmp_path / "rows.jsonl", *rows_of("new")), tmp_path / "index"
    with start(BUILD_AND_DIE, source, index, 1000, "lexical.LexicalWriter.finish", 0, "before") as process:
        process.wait()

    def interrupted(path, **named):
        next(path.glob("lexical/*.store")).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(build_transaction.shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build_index([source], index, analysis=Analysis(stemming=False))
    assert build_index([source], index).added == NUM_ROWS
    assert version_of(index, found) == "new"


def test_a_draft_of_another_analysis_is_not_gone_on_with(tmp_path, write_rows):
    source, index = write_rows(tmp_path / "rows.jsonl", *rows_of("new")), tmp_path / "index"
    with start(BUILD_AND_DIE, source, index, 1000, "lexical.LexicalWriter.finish", 0, "before") as process:
        process.wait()
    assert build_index([source], index, analysis=Analysis(stemming=False)).added == NUM_ROWS


def test_a_damaged_draft_is_not_gone_on_with(tmp_path, write_rows):
    source, index = write_rows(tmp_path / "rows.jsonl", *rows_of("new")), tmp_path / "index"
    (index / "generation-000001").mkdir(parents=True)
    (index / "generation-000001" / "documents.sqlite").write_text("not a database, whatever its name " * 99)
    assert build_index([source], index).added == NUM_ROWS


def test_the_second_of_two_writers_is_told(tmp_path):
    first, second = (open_transaction(tmp_path / "index", Analysis()) for _ in range(2))
    with first, pytest.raises(BadIndex, match="is being written by another process: try again"), second:
        pass
    assert not (tmp_path / "index").exists()


def test_another_process_that_writes_is_told(tmp_path, write_rows):
    source, index = write_rows(tmp_path / "rows.jsonl", *rows_of("new")), tmp_path / "index"
    with open_transaction(index, Analysis()):
        with start(BUILD_AND_SAY + "\n", source, index, 10**9) as process:
            process.wait()
        assert process.returncode != 0


@pytest.mark.parametrize("content", ["file", "folder", "generation"])
def test_a_folder_with_other_things_is_never_touched(tmp_path, content):
    index = tmp_path / "home"
    index.mkdir()
    if content == "file":
        (index / "thesis.txt").write_text("precious")
    else:
        (index / content).mkdir()
    before = sorted(index.rglob("*"))
    with (
        pytest.raises(BadIndex, match=r"won't build .* holds other files"),
        open_transaction(index, Analysis()),
    ):
        pass
    assert sorted(index.rglob("*")) == before


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadIndex, match="it is a file"), open_transaction(tmp_path / "file", Analysis()):
        pass
    with (
        pytest.raises(BadIndex, match="can't be written"),
        open_transaction(tmp_path / "file" / "index", Analysis()),
    ):
        pass


def test_an_index_of_another_analysis_is_not_written_to(tmp_path, write_rows):
    source, index = write_rows(tmp_path / "rows.jsonl", ("a", "text")), tmp_path / "index"
    build_index([source], index)
    with pytest.raises(BadIndex, match="another folder"):
        build_index([source], index, analysis=Analysis(stop_words=False))


def test_without_hard_links_files_are_copied(tmp_path, write_rows, found, monkeypatch):
    def refuse(*given):
        raise OSError("no hard links here")

    monkeypatch.setattr(build_transaction.os, "link", refuse)
    source, index = write_rows(tmp_path / "rows.jsonl", ("a", "text"), ("b", "text")), tmp_path / "index"
    build_index([source], index)
    build_index([write_rows(source, ("a", "text"), ("b", "new text"))], index)
    assert found(index, "text") == {"a": "text", "b": "new text"}


def test_a_full_disk_is_told_and_leaves_the_old_index(old, write_rows, found):
    source, index = old
    write_rows(source, *rows_of("new"))
    limited = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        + BUILD
        + """
from askance.core.errors import BadIndex
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), int(sys.argv[4])))
try:
    build.build_index([Path(sys.argv[1])], Path(sys.argv[2]))
except BadIndex as error:
    print(error)
"""
    )
    with start(limited, source, index, 10**9, 30_000) as process:
        output = process.stdout.read()
    assert "can't be written" in output
    assert "is the disk full?" in output
    assert version_of(index, found) == "old"
    assert [path.name for path in index.glob("generation-*")] == ["generation-000001"]


def test_a_killed_writer_holds_no_lock(tmp_path):
    script = """
    import os, signal, sys
    from pathlib import Path
    from askance.retrieval.bm25_analysis import Analysis
    from askance.retrieval.index.build_transaction import open_transaction
    with open_transaction(Path(sys.argv[1]), Analysis()):
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with start(script, tmp_path / "index") as process:
        process.wait()
    assert (tmp_path / "index" / "writer.lock").exists()
    with open_transaction(tmp_path / "index", Analysis()):
        pass
