import asyncio
import json
from pathlib import Path

import pytest
from tests.contracts.retriever_contract import PASSAGES
from tests.retrieval.postgres import postgres  # noqa: F401

from askance.core.filters import FieldComparison
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


def kind_of(value):
    """Return the kind of a value of a field."""
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number"


def matches(where, fields):
    """Return whether a document with these fields passes a filter, by its documented meaning."""
    if not isinstance(where, FieldComparison):
        results = [matches(part, fields) for part in where.parts]
        return {"and": all(results), "or": any(results), "not": not results[0]}[where.operator]
    value, values = fields.get(where.name), where.values
    if value is None or kind_of(value) not in map(kind_of, values):
        return False
    if where.operator in ("=", "in"):
        return any(kind_of(value) == kind_of(each) and value == each for each in values)
    (limit,) = values
    orders = {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}
    return orders[where.operator]
