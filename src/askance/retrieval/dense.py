"""Search by meaning: the passages whose vectors are nearest to the query's; and by words and meaning."""

import asyncio
import sqlite3
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from askance.core.errors import ModelFailure, RetrieverFailure
from askance.core.ports import Encoder, Retriever
from askance.core.types import Hit, Passage
from askance.retrieval.bm25 import Bm25Retriever
from askance.retrieval.index.store import Store, open_store
from askance.retrieval.index.vectors import FlatIndex, checked
from askance.retrieval.ranking import best_hits, check_k
from askance.text.fusion import fuse_hits

RANKS_FUSED = 100
"""How far down each ranking of a hybrid is looked at, for any k up to this."""


@dataclass(frozen=True, slots=True)
class DenseRetriever:
    """A `Retriever` by the inner product of vectors of length 1: the cosine of query and passage.

    Every passage is compared, and any has a score, so that a query with a word finds as many as it asks for.
    Passages of equal score, to six digits, come in the order of their ids.
    """

    store: Store
    vectors: FlatIndex
    encoder: Encoder

    @property
    def name(self) -> str:
        """Names the folder, the number of passages, and the encoder."""
        return f"dense {self.store.folder} ({self.vectors.num_vectors:,} passages, {self.encoder.name})"

    @property
    def fingerprint(self) -> str:
        """Of the indexed documents and the encoder."""
        return f"dense, {self.store.manifest.content_hash}, {self.encoder.fingerprint}"

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """At most `k` passages, best first; none for a query without a letter or digit.

        Raises:
            InputError: `k` is below 1.
            RetrieverFailure: the encoder broke, or the index can't be read any more.
        """
        check_k(k)
        vectors = self.vectors
        if not any(character.isalnum() for character in query):
            return ()
        try:
            found = await self.encoder.embed([query], "query")
            (vector,) = checked(found, 1, vectors.dimensions, self.encoder.name)
            find, num_all = partial(vectors.best, vector), vectors.num_vectors
            return await best_hits(find, self._passage, k, exclude, num_all, vectors.dimensions)
        except (ModelFailure, ValueError, OSError, sqlite3.Error) as error:
            raise RetrieverFailure(f"{self.name} could not be searched for {query!r}: {error}") from error

    def _passage(self, place: tuple[int, int]) -> Passage:
        document_id, passage_id = self.vectors.ids_at(place)
        found = self.store.lexical.passages_of(document_id)
        if passage_id not in found:
            raise ValueError(f"the passage {passage_id!r} has a vector and is not in the index")
        return found[passage_id]


@dataclass(frozen=True, slots=True)
class HybridRetriever:
    """A `Retriever` that fuses the rankings of two others by reciprocal ranks; see `fuse`.

    The first 100 of each ranking count, or the first k where more are asked for. A hit's score is the sum of
    1 / (60 + rank). What both rank alike comes in the order of the first ranking.
    """

    first: Retriever
    second: Retriever

    @property
    def name(self) -> str:
        """Names both."""
        return f"hybrid of {self.first.name} and {self.second.name}"

    @property
    def fingerprint(self) -> str:
        """Of both; empty if one of them has none."""
        both = self.first.fingerprint, self.second.fingerprint
        return f"hybrid, {'; '.join(both)}" if all(both) else ""

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """At most `k` passages, best first; none for a query without a searchable word.

        Raises:
            InputError: `k` is below 1.
            RetrieverFailure: as for the two.
        """
        check_k(k)
        num_fused = max(k, RANKS_FUSED)
        rankings = await asyncio.gather(
            *(each.search(query, num_fused, exclude=exclude) for each in (self.first, self.second))
        )
        return fuse_hits(rankings)[:k]


def open_dense(path: Path, encoder: Encoder) -> DenseRetriever:
    """The retriever over the vectors in the index folder `path`, which `encoder` must have made.

    Raises:
        BadIndex: the index is missing, empty, damaged or newer than this version, has no vectors, or has
            those of another encoder.
    """
    store = open_store(path, encoder=encoder)
    assert store.vectors is not None  # they were asked for
    return DenseRetriever(store, store.vectors, encoder)


def open_hybrid(path: Path, encoder: Encoder) -> HybridRetriever:
    """BM25 and the vectors of one and the same index; takes and raises what `open_dense` does."""
    dense = open_dense(path, encoder)
    return HybridRetriever(Bm25Retriever(dense.store), dense)
