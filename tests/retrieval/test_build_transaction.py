"""After any interruption of a build, the old or the new index is there: complete, never a mixture."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from tests.retrieval.conftest import rows_file, snapshot
from tests.retrieval.vectors import check_vectors, search

from askance.core.errors import BadIndex, ModelFailure
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.dense import open_dense
from askance.retrieval.index import index_folder, lexical, writer
from askance.retrieval.index.writer import open_writer

NUM_ROWS, HALF = 1500, 750
ENCODER = ScriptedEncoder()
BUILD_AND_SAY = """
import sys
from pathlib import Path
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.index import build, writer
writer.CHECKPOINT_PASSAGES = writer.CHECKPOINT_VECTORS = writer._PASSAGES_AT_ONCE = 200
started = lambda step: print("started", flush=True) if step.documents == 1 else None
build.build_index([Path(sys.argv[1])], Path(sys.argv[2]), encoder=ScriptedEncoder(), progress=started)
"""


def rows_of(version, num_rows=NUM_ROWS):
    """Return rows of which the first half never changes, so that its vectors stay where they are."""
    versions = ["row"] * (num_rows // 2) + [version] * (num_rows - num_rows // 2)
    return [(str(number), f"{version} row {number}") for number, version in enumerate(versions)]


def version_with_vectors(index, found):
    """Return the version of the index, after checking that it is complete."""
    check_vectors(index, NUM_ROWS)
    texts = found(index, "row", NUM_ROWS * 3)
    assert set(texts) == {str(number) for number in range(NUM_ROWS)}
    (version,) = {texts[str(number)].split()[0] for number in range(HALF, NUM_ROWS)}
    return version


def building(tmp_path, index):
    command = [sys.executable, "-c", BUILD_AND_SAY, str(tmp_path / "rows.jsonl"), str(index)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def interrupted(build, monkeypatch):
    """Return a function that builds with a checkpoint every 4 passages until a call of a method."""

    def interrupted(rows, owner, name, call):
        real, calls = getattr(owner, name), count()

        def deadly(*given):
            if next(calls) == call:
                raise KeyboardInterrupt
            return real(*given)

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, deadly)
            patched.setattr(writer, "CHECKPOINT_PASSAGES", 4)
            with pytest.raises(KeyboardInterrupt):
                build(*rows)

    return interrupted


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


def test_sigkill_at_random_moments_leaves_the_old_or_the_new_index(tmp_path, build, index, found):
    started = time.perf_counter()
    build(*rows_of("version0"), encoder=ENCODER)
    build_seconds = time.perf_counter() - started
    random_moment, num_killed = random.Random(7), 0
    for number in range(1, 5):
        before = version_with_vectors(index, found)
        rows_file(tmp_path / "rows.jsonl", *rows_of(f"version{number}"))
        with building(tmp_path, index) as process:
            process.stdout.readline()
            time.sleep(random_moment.uniform(0, build_seconds))
            process.kill()
        num_killed += process.returncode == -signal.SIGKILL
        assert version_with_vectors(index, found) in (before, f"version{number}")
    assert num_killed >= 1
    build(*rows_of("version4"), encoder=ENCODER)
    assert version_with_vectors(index, found) == "version4"
    assert sorted(path.name for path in index.iterdir())[1:] == ["manifest.json", "writer.lock"]


@pytest.mark.parametrize("tables", ["", "documents", "documents and state", "damaged"])
def test_a_document_table_that_a_kill_left_half_made_is_made_again(build, index, tables):
    (index / "generation-000001" / "lexical").mkdir(parents=True)
    path = index / "generation-000001" / "documents.sqlite"
    with closing(sqlite3.connect(path)) as table:
        if tables.startswith("documents"):
            table.execute("CREATE TABLE documents (number INTEGER PRIMARY KEY)")
        if tables.endswith("state"):
            table.execute("CREATE TABLE state (stamp TEXT NOT NULL)")
    if tables == "damaged":
        path.write_text("not a database, whatever its name " * 99)
    assert build(("a", "one")).outcomes == {"added": 1}


def test_a_checkpoint_of_another_analysis_or_half_removed_is_not_resumed(
    build, index, interrupted, monkeypatch, tmp_path
):
    def half_removed(path, **named):
        next(path.glob("lexical/*.store")).unlink()
        raise KeyboardInterrupt

    interrupted(rows_of("new", 10), lexical.LexicalWriter, "add", 7)
    twin = shutil.copytree(index, tmp_path / "twin")
    assert build(*rows_of("new", 10)).outcomes == {"unchanged": 4, "added": 6}
    shutil.rmtree(index)
    twin.rename(index)
    with monkeypatch.context() as patched:
        patched.setattr(index_folder.shutil, "rmtree", half_removed)
        with pytest.raises(KeyboardInterrupt):
            build(*rows_of("new", 10), analysis=Analysis(stemming=False))
    assert build(*rows_of("new", 10)).outcomes == {"added": 10}


def test_what_changes_back_after_a_checkpoint_is_not_lost(build, index, found, interrupted):
    build(*rows_of("old", 10))
    interrupted(rows_of("new", 10), lexical.LexicalWriter, "add", 4)
    assert build(*rows_of("old", 10)).outcomes == {"updated": 4, "unchanged": 6}
    assert found(index, "row") == dict(rows_of("old", 10))


def test_a_build_resumes_after_an_end_inside_a_commit(build, index, found, interrupted, tmp_path):
    """tantivy first writes its deletion files, under names that the next writer uses again."""
    build(*rows_of("old", 20))
    twin = shutil.copytree(index, tmp_path / "twin")
    interrupted(rows_of("new", 20), lexical.LexicalWriter, "commit", 1)
    index.rename(tmp_path / "interrupted")
    twin.rename(index)
    build(*rows_of("new", 20))
    index.rename(twin)
    (tmp_path / "interrupted").rename(index)
    left = [path.relative_to(twin) for path in twin.glob("generation-000002/lexical/*.del")]
    left = [path for path in left if not (index / path).exists()]
    assert left
    for path in (*left, Path("generation-000002", "lexical", ".managed.json")):
        shutil.copyfile(twin / path, index / path)
    assert build(*rows_of("new", 20)).outcomes == {"unchanged": 14, "updated": 6}
    assert found(index, "row") == dict(rows_of("new", 20))


def test_what_was_never_committed_is_removed_from_the_draft_alone(build, index):
    build(*rows_of("old", 10))
    folder = index / "generation-000001" / "lexical"
    names = {path.name for path in folder.iterdir() if path.suffix != ".lock"}
    left = [f"{next(folder.glob('*.store')).stem}.99.del", f"{'0' * 32}.store"]
    for name in (*left, ".tmpAb12Cd"):
        (folder / name).write_text("left there")
    managed = json.loads((folder / ".managed.json").read_text())
    (folder / ".managed.json").write_text(json.dumps(managed + left))
    before = snapshot(index / "generation-000001")
    with open_writer(index, analysis=Analysis()):
        found = (index / "generation-000002" / "lexical").iterdir()
        assert {path.name for path in found if path.suffix != ".lock"} == names
    assert snapshot(index / "generation-000001") == before


def test_a_second_writer_is_refused(tmp_path, index):
    rows_file(tmp_path / "rows.jsonl", ("a", "one"))
    with open_writer(index, analysis=Analysis()):
        with pytest.raises(BadIndex, match="is being written by another process: try again"):
            open_writer(index, analysis=Analysis()).__enter__()
        with building(tmp_path, index) as process:
            assert "is being written by another process" in process.stderr.read()
    assert not index.exists()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("home/thesis.txt", "home: it holds other files"),
        ("home/folder/file", "home: it holds other files"),
        ("home/generation/file", "home: it holds other files"),
        ("home", "it is a file"),
    ],
)
def test_what_is_no_index_is_never_touched(tmp_path, name, problem):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("precious")
    before = snapshot(tmp_path)
    with pytest.raises(BadIndex, match=problem):
        open_writer(tmp_path / "home", analysis=Analysis()).__enter__()
    with pytest.raises(BadIndex, match="can't be written"):
        open_writer(tmp_path / name / "index", analysis=Analysis()).__enter__()
    assert snapshot(tmp_path) == before


def test_without_hard_links_files_are_copied(build, index, found, monkeypatch):
    def refuse(*given):
        raise OSError("no hard links here")

    monkeypatch.setattr(index_folder.os, "link", refuse)
    build(("a", "text"), ("b", "text"))
    build(("a", "text"), ("b", "new text"))
    assert found(index, "text") == {"a": "text", "b": "new text"}
    with pytest.raises(BadIndex, match="another folder"):
        build(("a", "text"), analysis=Analysis(stop_words=False))


class BreakingEncoder(ScriptedEncoder):
    """An encoder that always fails."""

    async def embed(self, texts, kind="text"):
        if texts:
            raise ModelFailure("broken")
        return await super().embed(texts, kind)


def test_rows_that_the_index_has_and_a_broken_build_has_not_stay(build, index):
    build(*rows_of("old", 100), encoder=ENCODER)
    for _ in range(2):  # the second resumes from where the first broke, with fewer rows than the index
        with pytest.raises(ModelFailure):
            build(*rows_of("new", 100), encoder=BreakingEncoder())
        check_vectors(index, 100)
    build(*rows_of("new", 100), encoder=ENCODER)
    check_vectors(index, 100)


def test_an_open_index_keeps_its_rows_while_later_ones_take_their_place(build, index):
    build(*rows_of("old", 100), encoder=ENCODER)
    retriever = open_dense(index, ENCODER)
    before = search(retriever, "old row 99", 100)
    for changed in (rows_of("old", 100)[:50], rows_of("new", 100)):
        build(*changed, encoder=ENCODER)
        assert search(retriever, "old row 99", 100) == before


def test_what_lies_in_rows_that_are_not_in_use_does_not_matter(build, index):
    build(*rows_of("old", 100), encoder=ENCODER)
    (path,) = index.glob("generation-*/vectors/*")
    with path.open("ab") as file:
        file.write(b"\xff" * 100)  # a row of no numbers and part of another, as a power cut may leave them
    build(*rows_of("old", 100), ("another", "row"), encoder=ENCODER)
    check_vectors(index, 101)
