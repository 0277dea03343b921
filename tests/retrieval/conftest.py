import asyncio
import json
from pathlib import Path

import pytest
from tests.contracts.retriever_contract import PASSAGES

from askance.models.scripted import ScriptedEncoder
from askance.retrieval.bm25 import open_index
from askance.retrieval.index.build import build_index


def rows_file(path: Path, *rows) -> Path:
    """Write rows, given as (id, text) pairs or as mappings, to a .jsonl file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = (row if isinstance(row, dict) else {"id": row[0], "text": row[1]} for row in rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in written))
    return path


@pytest.fixture
def write_rows():
    """Return `rows_file`."""
    return rows_file


@pytest.fixture
def index(tmp_path):
    """Return the folder that `build` makes."""
    return tmp_path / "index"


@pytest.fixture
def build(tmp_path, index):
    """Return a function that writes rows to a file, and builds or updates the index of this file."""

    def build(*rows, **options):
        return build_index([rows_file(tmp_path / "rows.jsonl", *rows)], index, **options)

    return build


@pytest.fixture
def found():
    """Return a function that searches an index folder and returns {passage id: text}."""

    def search(folder: Path, query: str, k: int = 1000):
        hits = asyncio.run(open_index(folder).search(query, k))
        return {hit.passage.id: hit.passage.text for hit in hits}

    return search


@pytest.fixture(scope="session")
def contract_index(tmp_path_factory):
    """Return an index with vectors of the passages of the contract of retrievers."""
    folder = tmp_path_factory.mktemp("contract")
    rows = [{"id": each.id, "title": each.title, "text": each.text} for each in PASSAGES]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        source = rows_file(folder / "rivers.jsonl", *rows).relative_to(folder)
        build_index([source], folder / "index", encoder=ScriptedEncoder())
    return folder / "index"


def snapshot(folder: Path):
    """Return all files below `folder` with their content."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
