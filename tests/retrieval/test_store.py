import asyncio
import json
import random
import shutil
import subprocess
import sys
from contextlib import suppress

import pytest

from askance.core.errors import AskanceError, BadIndex, RetrieverFailure
from askance.retrieval.analysis import Analysis
from askance.retrieval.bm25 import open_index
from askance.retrieval.build import build_index
from askance.retrieval.manifest import SCHEMA_VERSION
from askance.retrieval.store import open_store


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
    manifest = open_store(index).manifest
    assert (manifest.generation, manifest.documents, manifest.passages) == (1, 2, 2)
    assert manifest.analysis == Analysis()
    assert manifest.created_at == manifest.updated_at
    assert manifest.engine.startswith("tantivy ")
    written = json.loads((index / "manifest.json").read_text())
    assert (written["format"], written["schema_version"]) == ("askance-index", SCHEMA_VERSION)


def test_a_missing_folder(tmp_path):
    with pytest.raises(BadIndex, match=r"nowhere does not exist: name the folder"):
        open_store(tmp_path / "nowhere")


def test_a_file(tmp_path):
    (tmp_path / "index").write_text("x")
    with pytest.raises(BadIndex, match="is a file"):
        open_store(tmp_path / "index")


def test_a_folder_that_is_no_index(tmp_path):
    with pytest.raises(BadIndex, match=r"holds no index .*askance index"):
        open_store(tmp_path)


def test_an_index_of_another_format(index):
    rewrite_manifest(index, format="other")
    with pytest.raises(BadIndex, match="format 'other'"):
        open_store(index)


def test_a_newer_index(index):
    rewrite_manifest(index, schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(BadIndex, match=r"schema version 2, this askance reads up to 1: upgrade"):
        open_store(index)


def test_an_empty_index(index):
    rewrite_manifest(index, passages=0)
    with pytest.raises(BadIndex, match="is empty: add documents"):
        open_store(index)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": "askance-index", "schema_version": 1}'])
def test_a_damaged_manifest(index, content):
    (index / "manifest.json").write_text(content)
    with pytest.raises(BadIndex, match=r"manifest\.json can't be read .*build the index again"):
        open_store(index)


def test_a_lost_generation(index):
    shutil.rmtree(index / "generation-000001")
    with pytest.raises(BadIndex, match=r"written by tantivy .*can't be opened .*build the index again"):
        open_store(index)


@pytest.fixture
def larger(tmp_path, write_rows):
    rows = [(str(number), f"river {number} flows through town {number % 17}") for number in range(300)]
    build_index([write_rows(tmp_path / "rows.jsonl", *rows)], tmp_path / "index")
    return tmp_path / "index"


FLIPS_A_FILE = 25
"""About one of forty makes tantivy panic."""


def test_a_damaged_file_never_ends_in_a_panic(larger):
    chosen = random.Random(3)
    for path in [each for each in larger.rglob("*") if each.is_file() and each.stat().st_size]:
        whole = path.read_bytes()
        for _ in range(FLIPS_A_FILE):
            damaged = bytearray(whole)
            damaged[chosen.randrange(len(damaged))] ^= 1 << chosen.randrange(8)
            path.write_bytes(damaged)
            with suppress(AskanceError):
                asyncio.run(open_index(larger).search("river town", 5))
        path.write_bytes(whole)
    assert asyncio.run(open_index(larger).search("river town", 5))


def test_a_panic_of_tantivy_is_an_error_of_the_index(larger, monkeypatch):
    class Panic(BaseException):
        pass

    def panic(*given, **named):
        raise Panic("range end index 19433 out of range")

    from askance.retrieval import lexical

    opened = open_index(larger)
    monkeypatch.setattr(lexical, "_unpack", panic)
    with pytest.raises(RetrieverFailure, match=r"could not be searched .*range end index 19433"):
        asyncio.run(opened.search("river", 5))
    monkeypatch.setattr(lexical.tantivy.Index, "open", panic)
    with pytest.raises(BadIndex, match=r"can't be opened .*range end index 19433.*build the index again"):
        open_index(larger)


def test_another_analysis(index):
    assert open_store(index, analysis=Analysis()).manifest.documents == 2
    with pytest.raises(
        BadIndex, match=r"was built with Analysis\(stop_words=True, stemming=True\), not with"
    ):
        open_store(index, analysis=Analysis(stemming=False))


def test_an_open_index_stays_as_it_is_when_a_build_replaces_it(index, tmp_path, write_rows):
    retriever = open_index(index)
    build_index([write_rows(tmp_path / "rows.jsonl", ("a", "new river"))], index)
    assert not (index / "generation-000001").exists()
    hits = asyncio.run(retriever.search("old", 5))
    assert {hit.passage.text for hit in hits} == {"old river", "old town"}
    assert asyncio.run(retriever.search("new", 5)) == ()


def test_opening_follows_a_build_that_gets_in_between(index, tmp_path, write_rows, monkeypatch):
    from askance.retrieval import store

    stale = store.read_manifest(index)
    build_index([write_rows(tmp_path / "rows.jsonl", ("a", "new river"))], index)
    current = store.read_manifest(index)
    answers = iter([stale, current, current])
    monkeypatch.setattr(store, "read_manifest", lambda folder: next(answers))
    assert open_store(index).manifest == current


def run(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_without_tantivy_the_error_names_the_extra():
    script = "import sys; sys.modules['tantivy'] = None; import askance.retrieval.bm25"
    assert "MissingExtra: an index needs the package 'tantivy'" in run(script).stderr


def test_reading_documents_imports_no_optional_package():
    modules = "askance.retrieval.passages, askance.retrieval.analysis, askance.retrieval.scripted"
    names = "{'tantivy', 'pypdf', 'trafilatura', 'lxml'}"
    assert run(f"import sys, {modules}; print({names} & set(sys.modules))").stdout == "set()\n"
