"""Dense retrieval by exact nearest-neighbour search over embeddings, and hybrid retrieval with BM25."""

import asyncio
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from askance.core.errors import ModelFailure, RetrieverFailure
from askance.core.filters import FieldKinds, Filter
from askance.core.ports import Encoder, FilteringRetriever, Retriever
from askance.core.types import Hit
from askance.retrieval.bm25 import Bm25Retriever, IndexRetriever
from askance.retrieval.index.reader import collection_of
from askance.retrieval.index.vectors import validate_vectors
from askance.retrieval.ranking import check_k
from askance.text.fusion import fuse_hits

RANKS_FUSED = 100
"""The number of hits that a hybrid retriever takes from each ranking. If k is greater, it takes k hits."""
CONSTANT = 2
"""The smoothing constant of the fusion.

A passage that answers in other words than those of the question is found by its vector alone. If it is the
first of one ranking and missing in the other, it comes after the first three of both. With the paper's 60, it
would come after the first 61 of both.
"""


@dataclass(frozen=True, slots=True)
class DenseRetriever(IndexRetriever):
    """A `Retriever` that scores passages by cosine similarity: the inner product of unit-length embeddings.

    The query is compared with every passage, so a search for k passages finds k if the index holds that many.
    Passages whose scores are equal to six significant digits are sorted by id.
    """

    encoder: Encoder

    @property
    def name(self) -> str:
        """Return the folder, the number of passages, the encoder, and the filter."""
        name = f"dense {self.index.place} ({self.index.manifest.passages:,} passages, {self.encoder.name})"
        return self._with_filter(name)

    @property
    def fingerprint(self) -> str:
        """Return a string that identifies the indexed documents, the encoder, and the filter."""
        return self._with_filter(f"dense, {self.index.manifest.content_hash}, {self.encoder.fingerprint}")

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return at most `k` passages, best first.

        A query without a letter or digit finds none.

        Raises:
            InputError: `k` is below 1.
            RetrieverFailure: The encoder failed, or the index can no longer be read.
        """
        check_k(k)
        if not any(character.isalnum() for character in query):
            return ()
        try:
            embedded = await self.encoder.embed([query], "query")
            (vector,) = validate_vectors(embedded, 1, self.index.dimensions, self.encoder.name)
            return await self.index.search_vector(vector, k, exclude=exclude, where=self.where)
        except (ModelFailure, ValueError, OSError, sqlite3.Error) as error:
            raise RetrieverFailure(f"{self.name} could not be searched for {query!r:.99}: {error}") from error


@dataclass(frozen=True, slots=True)
class HybridRetriever:
    """A `Retriever` that combines the rankings of two other retrievers by reciprocal rank fusion.

    Each ranking contributes its first 100 hits, or its first k if k is greater. The score of a hit is the sum
    of 1 / (2 + rank) over the rankings that contain it (see `fuse_hits`). Ties follow the order of the first
    ranking.
    """

    first: Retriever
    second: Retriever

    @property
    def name(self) -> str:
        """Return the names of both retrievers."""
        return f"hybrid of {self.first.name} and {self.second.name}"

    @property
    def fingerprint(self) -> str:
        """Return the fingerprints of both retrievers, or an empty string if one of them has none."""
        both = self.first.fingerprint, self.second.fingerprint
        return f"hybrid {CONSTANT}, {'; '.join(both)}" if all(both) else ""

    @property
    def fields(self) -> FieldKinds | None:
        """The fields of the first retriever, or None if one of the two can't filter."""
        first, second = (getattr(each, "fields", None) for each in (self.first, self.second))
        return None if second is None else first

    def filtered(self, where: Filter) -> "HybridRetriever":
        """Return a retriever that fuses the filtered rankings of both retrievers."""
        first, second = (cast(FilteringRetriever, each).filtered(where) for each in (self.first, self.second))
        return replace(self, first=first, second=second)

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return at most `k` passages, best first.

        A query without a letter or digit finds none.

        Raises:
            InputError: `k` is below 1.
            RetrieverFailure: One of the two retrievers failed.
        """
        check_k(k)
        num_fused = max(k, RANKS_FUSED)
        rankings = await asyncio.gather(
            *(retriever.search(query, num_fused, exclude=exclude) for retriever in (self.first, self.second))
        )
        return fuse_hits(rankings, CONSTANT)[:k]


def open_dense(path: Path | str, encoder: Encoder) -> DenseRetriever:
    """Return a dense retriever over the index `path`, whose embeddings `encoder` must have made.

    Raises:
        BadIndex: The index is missing, empty, damaged or newer than this version, has no vectors, or has
            vectors of another encoder.
    """
    return DenseRetriever(collection_of(path).reader(encoder), encoder)


def open_hybrid(path: Path | str, encoder: Encoder) -> HybridRetriever:
    """Return a hybrid retriever over BM25 and the vectors of one index (see `open_dense`)."""
    dense = open_dense(path, encoder)
    return HybridRetriever(Bm25Retriever(dense.index), dense)
