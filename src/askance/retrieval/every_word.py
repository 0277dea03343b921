"""A retriever of one's own: the passages that contain every word of the query."""

from dataclasses import dataclass
from pathlib import Path

from askance.core.types import Hit
from askance.retrieval.bm25 import Bm25Retriever, open_index
from askance.retrieval.ranking import rank_hits
from askance.text.words import split_words


@dataclass(frozen=True, slots=True)
class EveryWordRetriever(Bm25Retriever):
    """A `Retriever` that keeps those of the first 100 hits of BM25 that contain every word of the query."""

    @property
    def name(self) -> str:
        """Return the name of the BM25 retriever, and what else is required."""
        return f"{Bm25Retriever.name.fget(self)}, every word"  # type: ignore[attr-defined]

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return at most `k` passages, best first."""
        hits = await Bm25Retriever.search(self, query, max(k, 100), exclude=exclude)
        wanted = {word.lower() for word in split_words(query)}
        kept = [
            (hit.score, hit.passage)
            for hit in hits
            if wanted <= {word.lower() for word in split_words(f"{hit.passage.title} {hit.passage.text}")}
        ]
        return rank_hits(kept, k)


def open_every_word(path: Path) -> EveryWordRetriever:
    """Return the retriever over the index in the folder `path`."""
    return EveryWordRetriever(open_index(path).index)
