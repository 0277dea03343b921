"""Search by words and by meaning: the rankings of both in one."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from askance.core.ports import Encoder, Retriever
from askance.core.types import Hit
from askance.retrieval.bm25 import Bm25Retriever
from askance.retrieval.dense import open_dense
from askance.retrieval.ranking import check_k
from askance.text.fusion import fuse_hits

RANKS_FUSED = 100
"""How far down each ranking is looked at, for any k up to this."""


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


def open_hybrid(path: Path, encoder: Encoder) -> HybridRetriever:
    """BM25 and the vectors of one and the same index; takes and raises what `open_dense` does."""
    dense = open_dense(path, encoder)
    return HybridRetriever(Bm25Retriever(dense.store), dense)
