import asyncio
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
from tests.retrieval.conftest import snapshot

from askance.core.errors import AskanceError, BadIndex, RetrieverFailure
from askance.models.scripted import ScriptedEncoder
from askance.retrieval.bm25 import open_index
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.dense import open_dense
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import SCHEMA_VERSION, open_index_reader


@pytest.fixture
def index(tmp_path, write_rows):
    build_index(
        [write_rows(tmp_path / "rows.jsonl", ("a", "old river"), ("b", "old town"))], tmp_path / "index"
    )
    return tmp_path / "index"


def rewrite_manifest(index, **changes):
    manifest = json.loads((index / "manifest.json").read_text())
    (index / "manifest.json").write_text(json.dumps({**manifest, **changes}))


def test_the_manifest_says_what_the_index_holds(index):
    manifest = open_index_reader(index).manifest
    assert (manifest.generation, manifest.documents, manifest.passages) == (1, 2, 2)
    assert manifest.analysis == Analysis()
    assert manifest.created_at == manifest.updated_at
    assert manifest.engine.startswith("tantivy ")
    written = json.loads((index / "manifest.json").read_text())
    assert (written["format"], written["schema_version"]) == ("askance-index", SCHEMA_VERSION)


def test_a_missing_folder(tmp_path):
    with pytest.raises(BadIndex, match=r"nowhere does not exist: name the folder"):
        open_index_reader(tmp_path / "nowhere")


def test_a_file(tmp_path):
    (tmp_path / "index").write_text("x")
    with pytest.raises(BadIndex, match="is a file"):
        open_index_reader(tmp_path / "index")


def test_a_folder_that_is_no_index(tmp_path):
    with pytest.raises(BadIndex, match=r"holds no index .*askance index"):
        open_index_reader(tmp_path)


def test_an_index_of_another_format(index):
    rewrite_manifest(index, format="other")
    with pytest.raises(BadIndex, match="format 'other'"):
        open_index_reader(index)


def test_a_newer_index(index):
    rewrite_manifest(index, schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(BadIndex, match=r"later version .*version 3; this version reads 2\): upgrade"):
        open_index_reader(index)


def test_an_index_of_an_earlier_version_says_how_to_build_it_again(index):
    rewrite_manifest(index, schema_version=SCHEMA_VERSION - 1)
    with pytest.raises(
        BadIndex, match=r"earlier version .* build the index again with `askance index DOCS --out "
    ):
        open_index_reader(index)


def test_an_empty_index(index):
    rewrite_manifest(index, passages=0)
    with pytest.raises(BadIndex, match="is empty: add documents"):
        open_index_reader(index)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": "askance-index", "schema_version": 2}'])
def test_a_damaged_manifest(index, content):
    (index / "manifest.json").write_text(content)
    with pytest.raises(BadIndex, match=r"manifest\.json can't be read .*build the index again"):
        open_index_reader(index)


def test_a_lost_generation(index):
    shutil.rmtree(index / "generation-000001")
    with pytest.raises(BadIndex, match=r"written by tantivy .*can't be opened .*build the index again"):
        open_index_reader(index)


@pytest.fixture
def larger(tmp_path, write_rows):
    rows = [(str(number), f"river {number} flows through town {number % 17}") for number in range(300)]
    build_index([write_rows(tmp_path / "rows.jsonl", *rows)], tmp_path / "index")
    return tmp_path / "index"


FLIPS_A_FILE = 25
"""About one of twenty-five makes tantivy panic."""


def replace(path: Path, content: bytes) -> None:
    """Replace a file that threads of tantivy may still have mapped into memory.

    If a file is truncated while it is mapped, its reader dies (SIGBUS).
    """
    other = path.with_name(f"{path.name}.other")
    other.write_bytes(content)
    other.replace(path)


def test_a_damaged_file_never_ends_in_a_panic(larger):
    chosen = random.Random(3)
    for path in [each for each in larger.rglob("*") if each.is_file() and each.stat().st_size]:
        whole = path.read_bytes()
        for _ in range(FLIPS_A_FILE):
            damaged = bytearray(whole)
            damaged[chosen.randrange(len(damaged))] ^= 1 << chosen.randrange(8)
            replace(path, damaged)
            with suppress(AskanceError):
                asyncio.run(open_index(larger).search("river town", 5))
        replace(path, whole)
    assert asyncio.run(open_index(larger).search("river town", 5))


def test_a_panic_of_tantivy_is_an_error_of_the_index(larger, monkeypatch):
    class Panic(BaseException):
        pass

    def panic(*given, **named):
        raise Panic("range end index 19433 out of range")

    from askance.retrieval.index import lexical

    opened = open_index(larger)
    monkeypatch.setattr(lexical, "_unpack", panic)
    with pytest.raises(RetrieverFailure, match=r"could not be searched .*range end index 19433"):
        asyncio.run(opened.search("river", 5))
    monkeypatch.setattr(lexical.tantivy.Index, "open", panic)
    with pytest.raises(BadIndex, match=r"can't be opened .*range end index 19433.*build the index again"):
        open_index(larger)


@contextmanager
def by_somebody_else(folder, mode):
    """Make `folder` read-only, and let root, who may do anything, be another user for a while."""
    is_root = os.geteuid() == 0
    paths = [folder, *folder.rglob("*")]
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


@pytest.fixture
def shared(write_rows):
    """Return an index in a folder that everybody may read."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        source = write_rows(Path(place) / "rows.jsonl", ("a", "old river"), ("b", "old town"))
        build_index([source], Path(place) / "index", encoder=ScriptedEncoder())
        # What is imported only now might not be anybody else's to read.
        open_dense(Path(place) / "index", ScriptedEncoder())
        yield Path(place) / "index"


def test_an_index_of_somebody_else_is_searched_and_stays_as_it_is(shared):
    before = snapshot(shared)
    with by_somebody_else(shared, 0o444):
        for opened in (open_index(shared), open_dense(shared, ScriptedEncoder())):
            hits = asyncio.run(opened.search("river", 5))
            assert hits[0].passage.text == "old river"
            assert asyncio.run(opened.search("town", 5))[0].passage.text == "old town"
        with pytest.raises(
            BadIndex, match=r"can't be written \(.*Permission denied.*name a folder that you may"
        ):
            build_index([shared.parent / "rows.jsonl"], shared, encoder=ScriptedEncoder())
    assert snapshot(shared) == before


@pytest.mark.parametrize("name", ["manifest.json", "generation-000001", "meta.json", "*.store"])
def test_what_may_not_be_read_is_told_and_is_nothing_to_delete(shared, name):
    (path,) = shared.rglob(name)
    is_root = os.geteuid() == 0
    path.chmod(0o000)
    if is_root:
        os.seteuid(65534)
    try:
        with pytest.raises(BadIndex, match=r"have its owner let you read") as caught:
            open_index(shared)
    finally:
        if is_root:
            os.seteuid(0)
        path.chmod(0o755)
    assert "delete" not in str(caught.value)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EIO, errno.ENOSPC])
def test_an_error_of_the_system_is_no_damage(index, monkeypatch, tmp_path, number):
    from askance.retrieval.index import build_transaction, lexical

    def fails(*given, **named):
        raise OSError(number, os.strerror(number))

    def told(work):
        with pytest.raises(BadIndex) as caught:
            work()
        assert os.strerror(number) in str(caught.value)
        assert "delete" not in str(caught.value)

    with monkeypatch.context() as patched:
        patched.setattr(lexical.tantivy.Index, "open", fails)
        told(lambda: open_index(index))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", fails)
        told(lambda: open_index_reader(index))
    with monkeypatch.context() as patched:
        patched.setattr(build_transaction, "_start_generation", fails)
        told(lambda: build_index([tmp_path / "rows.jsonl"], index))


def test_an_open_index_stays_as_it_is_when_a_build_replaces_it(index, tmp_path, write_rows):
    retriever = open_index(index)
    build_index([write_rows(tmp_path / "rows.jsonl", ("a", "new river"))], index)
    assert not (index / "generation-000001").exists()
    hits = asyncio.run(retriever.search("old", 5))
    assert {hit.passage.text for hit in hits} == {"old river", "old town"}
    assert asyncio.run(retriever.search("new", 5)) == ()


def test_opening_follows_a_build_that_gets_in_between(index, tmp_path, write_rows, monkeypatch):
    from askance.retrieval.index import index_folder

    stale = index_folder.read_manifest(index)
    build_index([write_rows(tmp_path / "rows.jsonl", ("a", "new river"))], index)
    current = index_folder.read_manifest(index)
    answers = iter([stale, current, current])
    monkeypatch.setattr(index_folder, "read_manifest", lambda folder: next(answers))
    assert open_index_reader(index).manifest == current


def run(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_reading_documents_imports_no_package_that_it_does_not_need():
    modules = (
        "askance.retrieval.index.passages, askance.retrieval.index.documents, askance.retrieval.scripted"
    )
    names = "{'tantivy', 'pypdfium2', 'python_calamine', 'charset_normalizer'}"
    assert run(f"import sys, {modules}; print({names} & set(sys.modules))").stdout == "set()\n"
