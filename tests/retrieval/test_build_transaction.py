"""After any interruption of a build, the old or the new index is there: complete, never a mixture."""

import json
import shutil
import sqlite3
from contextlib import closing
from itertools import count

import pytest
from tests.faults import results_of
from tests.retrieval.conftest import snapshot
from tests.retrieval.vectors import check_vectors

from askance.core.errors import BadIndex
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index import index_folder, lexical, writer
from askance.retrieval.index.writer import open_writer


def rows_of(version, num_rows=10):
    """Return rows of which the first half never changes."""
    versions = ["row"] * (num_rows // 2) + [version] * (num_rows - num_rows // 2)
    return [(str(number), f"{version} row {number}") for number, version in enumerate(versions)]


@pytest.fixture
def interrupted(build, monkeypatch):
    """Return a function that builds with a checkpoint every 4 passages until a row is added."""

    def interrupted(rows, num_rows):
        real, calls = lexical.LexicalWriter.add, count()

        def deadly(*given):
            if next(calls) == num_rows:
                raise KeyboardInterrupt
            return real(*given)

        with monkeypatch.context() as patched:
            patched.setattr(lexical.LexicalWriter, "add", deadly)
            patched.setattr(writer, "CHECKPOINT_PASSAGES", 4)
            with pytest.raises(KeyboardInterrupt):
                build(*rows)

    return interrupted


@pytest.mark.parametrize("kind", ["kill", "error", "full"])
def test_a_fault_at_each_operation_leaves_the_old_or_the_new_index(kind):
    """A rerun makes the same index, and every error is one of ours; see `faults`.

    Here, errors and full disks take turns. `make test-extra` tries all three faults at each operation.
    """
    steps = {"kill": (1, 1), "error": (1, 2), "full": (2, 2)}
    found = results_of("tests.retrieval.faults", kind, *map(str, steps[kind]))
    assert found["operations"] >= {"kill": 80, "error": 40, "full": 40}[kind]
    assert found["limits"] >= {"kill": 15, "error": 10, "full": 0}[kind]


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

    interrupted(rows_of("new"), 7)
    twin = shutil.copytree(index, tmp_path / "twin")
    assert build(*rows_of("new")).outcomes == {"unchanged": 4, "added": 6}
    shutil.rmtree(index)
    twin.rename(index)
    with monkeypatch.context() as patched:
        patched.setattr(index_folder.shutil, "rmtree", half_removed)
        with pytest.raises(KeyboardInterrupt):
            build(*rows_of("new"), analysis=Analysis(language="german"))
    assert build(*rows_of("new")).outcomes == {"added": 10}


def test_what_changes_back_after_a_checkpoint_is_not_lost(build, index, found, interrupted):
    build(*rows_of("old"))
    interrupted(rows_of("new"), 4)
    assert build(*rows_of("old")).outcomes == {"updated": 4, "unchanged": 6}
    assert found(index, "row") == dict(rows_of("old"))


def test_what_was_never_committed_is_removed_from_the_draft_alone(build, index):
    build(*rows_of("old"))
    folder = index / "generation-000001" / "lexical"
    names = {path.name for path in folder.iterdir() if path.suffix != ".lock"}
    left = [f"{next(folder.glob('*.store')).stem}.99.del", f"{'0' * 32}.store"]
    for name in (*left, ".tmpAb12Cd"):
        (folder / name).write_text("left there")
    managed = json.loads((folder / ".managed.json").read_text())
    (folder / ".managed.json").write_text(json.dumps(managed + left))
    before = snapshot(index / "generation-000001")
    with open_writer(index, analysis=Analysis()):
        files = (index / "generation-000002" / "lexical").iterdir()
        assert {path.name for path in files if path.suffix != ".lock"} == names
    assert snapshot(index / "generation-000001") == before


def test_what_lies_in_rows_that_are_not_in_use_does_not_matter(build, index):
    build(*rows_of("old", 100), encoder=ScriptedEncoder())
    (path,) = index.glob("generation-*/vectors/*")
    with path.open("ab") as file:
        file.write(b"\xff" * 100)  # a row of no numbers and part of another, as a power cut may leave them
    build(*rows_of("old", 100), ("another", "row"), encoder=ScriptedEncoder())
    check_vectors(index, 101)


def test_a_second_writer_is_refused(index):
    with (
        open_writer(index, analysis=Analysis()),
        pytest.raises(BadIndex, match="is being written by another process: try again"),
        open_writer(index, analysis=Analysis()),
    ):
        pass
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
    for folder, refused in ((tmp_path / "home", problem), (tmp_path / name / "index", "can't be written")):
        with pytest.raises(BadIndex, match=refused):
            open_writer(folder, analysis=Analysis()).__enter__()
    assert snapshot(tmp_path) == before


def test_without_hard_links_files_are_copied(build, index, found, monkeypatch):
    def refuse(*given):
        raise OSError("no hard links here")

    monkeypatch.setattr(index_folder.os, "link", refuse)
    build(("a", "text"), ("b", "text"))
    build(("a", "text"), ("b", "new text"))
    assert found(index, "text") == {"a": "text", "b": "new text"}
    with pytest.raises(BadIndex, match="another folder"):
        build(("a", "text"), analysis=Analysis(language="german"))
