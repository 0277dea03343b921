"""The shared parts of the tests of vectors: encoders, and checks of the vectors of an index."""

import asyncio
from pathlib import Path

import numpy as np
from tests.tolerances import assert_near

from askance.models.scripted import ScriptedEncoder
from askance.retrieval.dense import open_dense
from askance.retrieval.index.index_folder import DOCUMENTS, VECTORS, generation_folder
from askance.retrieval.index.reader import open_index_reader


class CountingEncoder(ScriptedEncoder):
    """An encoder that records every text it is given."""

    def __init__(self, dimensions: int = 16, **named) -> None:
        super().__init__(dimensions, **named)
        self.texts: list[str] = []

    async def embed(self, texts, kind="text"):
        self.texts += texts
        return await super().embed(texts, kind)


class FixedEncoder:
    """An encoder that returns the given vector for any text, or raises the given error."""

    name, fingerprint = "fixed", ScriptedEncoder().fingerprint

    def __init__(self, row) -> None:
        self.row = row

    async def embed(self, texts, kind="text"):
        if not texts:
            return np.zeros((0, 16), dtype=np.float32)
        if isinstance(self.row, Exception):
            raise self.row
        return np.tile(np.asarray(self.row, dtype=np.float32), (len(texts), 1))


def search(retriever, query, k=10, exclude=frozenset()):
    return asyncio.run(retriever.search(query, k, exclude=exclude))


def check_vectors(index: Path, num_passages: int, encoder=None) -> None:
    """Check that every passage has its own vector, and that there are no others."""
    encoder = encoder or ScriptedEncoder()
    retriever = open_dense(index, encoder)
    assert retriever.index.vectors.num_vectors == num_passages == retriever.index.manifest.passages
    hits = search(retriever, "word", num_passages + 10)
    assert len({hit.passage.id for hit in hits}) == len(hits) == num_passages
    own = asyncio.run(encoder.embed([hit.passage.titled_text for hit in hits]))
    query = asyncio.run(encoder.embed(["word"]))[0]
    assert_near([hit.score for hit in hits], own @ query, "unit vector")


def files_of_vectors(index: Path) -> dict[str, int]:
    """Return the size of each file of vectors in the valid generation."""
    folder = generation_folder(index, open_index_reader(index).manifest.generation) / VECTORS
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}


def document_table_path(index: Path) -> Path:
    """Return the document table of the valid generation."""
    return generation_folder(index, open_index_reader(index).manifest.generation) / DOCUMENTS
