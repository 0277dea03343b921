"""An index folder that is damaged, belongs to somebody else or is replaced while it is open."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.retrieval.conftest import rows_file, snapshot
from tests.retrieval.vectors import search

from askance.core.errors import AskanceError, BadIndex, RetrieverFailure
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.bm25 import open_index
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.dense import open_dense
from askance.retrieval.index import index_folder, lexical, reader
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import SCHEMA_VERSION
from askance.retrieval.index.reader import open_index_reader

RIVER, TOWN = ("a", "old river"), ("b", "old town")
DAMAGED = r"manifest\.json can't be read .*build the index again"
LATER = rf"later version .*version {SCHEMA_VERSION + 1}; this version reads {SCHEMA_VERSION}\): upgrade"


@pytest.fixture
def built(build, index):
    build(RIVER, TOWN)
    return index


def test_the_manifest_says_what_the_index_holds(built):
    manifest = open_index_reader(built).manifest
    assert (manifest.generation, manifest.documents, manifest.passages) == (1, 2, 2)
    assert manifest.analysis == Analysis()
    assert manifest.created_at == manifest.updated_at
    assert manifest.engine.startswith("tantivy ")
    written = json.loads((built / "manifest.json").read_text())
    assert (written["format"], written["schema_version"]) == ("askance-index", SCHEMA_VERSION)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": "other"}, "format 'other'"),
        ({"schema_version": SCHEMA_VERSION + 1}, LATER),
        ({"schema_version": 2}, r"earlier version .* build the index again with `askance index DOCS --out "),
        ({"passages": 0}, "is empty: add documents"),
        ("", DAMAGED),
        ("{", DAMAGED),
        ("[]", DAMAGED),
        ("{}", DAMAGED),
        (f'{{"format": "askance-index", "schema_version": {SCHEMA_VERSION}}}', DAMAGED),
        (lambda index: (index / "manifest.json").unlink(), r"holds no index .*askance index"),
        (shutil.rmtree, r"index does not exist: name the folder"),
        (lambda index: index.rename(index.parent / "x") and index.write_text("x"), "is a file"),
        (lambda index: shutil.rmtree(index / "generation-000001"),
         r"written by tantivy .*can't be opened .*build the index again"),
    ],
)  # fmt: skip
def test_what_can_not_be_opened_is_refused_with_a_remedy(built, change, problem):
    path = built / "manifest.json"
    if callable(change):
        change(built)
    else:
        manifest = json.loads(path.read_text())
        path.write_text(change if isinstance(change, str) else json.dumps({**manifest, **change}))
    with pytest.raises(BadIndex, match=problem):
        open_index_reader(built)


FLIPS_A_FILE = 25
"""About one of twenty-five makes tantivy panic."""


def test_a_damaged_file_never_ends_in_a_panic(build, index):
    """Each file is replaced, since its reader would die (SIGBUS) if one that it has mapped was truncated."""
    build(*((f"{number}", f"river {number} flows through town {number % 17}") for number in range(300)))
    chosen = random.Random(3)
    for path in [each for each in index.rglob("*") if each.is_file() and each.stat().st_size]:
        whole, other = path.read_bytes(), path.with_name(f"{path.name}.other")
        for flip in range(FLIPS_A_FILE + 1):
            content = bytearray(whole)
            if flip < FLIPS_A_FILE:
                content[chosen.randrange(len(content))] ^= 1 << chosen.randrange(8)
            other.write_bytes(content)
            other.replace(path)
            with suppress(AskanceError):
                search(open_index(index), "river town", 5)
    assert search(open_index(index), "river town", 5)


def test_a_panic_of_tantivy_is_an_error_of_the_index(built, monkeypatch):
    class Panic(BaseException):
        pass

    def panic(*given, **named):
        raise Panic("range end index 19433 out of range")

    opened = open_index(built)
    monkeypatch.setattr(lexical, "unpacked", panic)
    with pytest.raises(RetrieverFailure, match=r"could not be searched .*range end index 19433"):
        search(opened, "river", 5)
    monkeypatch.setattr(lexical.tantivy.Index, "open", panic)
    with pytest.raises(BadIndex, match=r"can't be opened .*range end index 19433.*build the index again"):
        open_index(built)


@contextmanager
def nobody(*paths, mode):
    """Change the mode of paths, and let root, who may do anything, be another user for a while."""
    is_root = os.geteuid() == 0
    for path in paths:
        path.chmod(mode | (path.is_dir() and mode & 0o444) >> 2)
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        for path in paths:
            path.chmod(0o755)


def test_an_index_of_somebody_else_is_searched_and_nothing_to_write_or_delete():
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        source, shared = rows_file(Path(place) / "rows.jsonl", RIVER, TOWN), Path(place) / "index"
        build_index([source], shared, encoder=ScriptedEncoder())
        open_dense(shared, ScriptedEncoder())  # what is imported only now might not be others' to read
        before = snapshot(shared)
        with nobody(shared, *shared.rglob("*"), mode=0o444):
            for opened in (open_index(shared), open_dense(shared, ScriptedEncoder())):
                assert search(opened, "river", 5)[0].passage.text == "old river"
            refused = r"can't be written \(.*Permission denied.*name a folder that you may"
            with pytest.raises(BadIndex, match=refused):
                build_index([source], shared, encoder=ScriptedEncoder())
        assert snapshot(shared) == before
        for name in ("manifest.json", "generation-000001", "meta.json", "*.store"):
            (path,) = shared.rglob(name)
            with nobody(path, mode=0), pytest.raises(BadIndex, match="have its owner let you read") as caught:
                open_index(shared)
            assert "delete" not in str(caught.value)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EIO, errno.ENOSPC])
def test_an_error_of_the_system_is_no_damage(built, build, monkeypatch, number):
    def fails(*given, **named):
        raise OSError(number, os.strerror(number))

    for owner, name, work, problem in (
        (lexical.tantivy.Index, "open", lambda: open_index(built), "can't be opened"),
        (Path, "read_bytes", lambda: open_index_reader(built), "can't be read"),
        (index_folder, "start_generation", lambda: build(RIVER), "is the disk full?"),
        (lexical.LexicalWriter, "commit", lambda: build(RIVER), "is the disk full?"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, fails)
            with pytest.raises(BadIndex) as caught:
                work()
        assert os.strerror(number) in str(caught.value)
        assert problem in str(caught.value)
        assert "delete" not in str(caught.value)


def test_an_open_index_stays_as_it_is_and_opening_follows_a_build(build, index, monkeypatch):
    encoder = ScriptedEncoder()
    build(RIVER, TOWN, encoder=encoder)
    opened, stale = (open_index(index), open_dense(index, encoder)), index_folder.read_manifest(index)
    before = [search(each, "old", 5) for each in opened]
    for changed in ([RIVER], [("a", "new river")]):
        build(*changed, encoder=encoder)
    assert not (index / "generation-000001").exists()
    assert [search(each, "old", 5) for each in opened] == before
    assert {hit.passage.text for hit in before[0]} == {"old river", "old town"}
    current = index_folder.read_manifest(index)
    manifests = iter([stale, current, current])
    monkeypatch.setattr(reader, "read_manifest", lambda folder: next(manifests))
    assert open_index_reader(index).manifest == current


def test_reading_documents_imports_no_package_that_it_does_not_need():
    script = (
        "import sys, askance.retrieval.index.passages, askance.retrieval.scripted;"
        "print({'tantivy', 'pypdfium2', 'python_calamine', 'charset_normalizer'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.stdout == "set()\n"
