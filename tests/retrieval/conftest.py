import asyncio
import json
from pathlib import Path

import pytest

from askance.retrieval.bm25 import open_index


def rows_file(path: Path, *rows) -> Path:
    """Write rows, given as (id, text) pairs, to a .jsonl file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in rows))
    return path


@pytest.fixture
def write_rows():
    """Return `rows_file`."""
    return rows_file


@pytest.fixture
def found():
    """Return a function that searches an index folder and returns {passage id: text}."""

    def search(folder: Path, query: str, k: int = 1000):
        hits = asyncio.run(open_index(folder).search(query, k))
        return {hit.passage.id: hit.passage.text for hit in hits}

    return search


def snapshot(folder: Path):
    """Return all files below `folder` with their content."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
