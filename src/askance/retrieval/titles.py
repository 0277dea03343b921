"""Search by titles alone: the passages whose document is called what the query says."""

from dataclasses import dataclass
from pathlib import Path

from askance.core.types import Hit
from askance.retrieval.bm25 import Bm25Retriever, open_index


@dataclass(frozen=True, slots=True)
class TitleRetriever:
    """A `Retriever` that keeps of what BM25 finds the passages with a word of the query in their title."""

    words: Bm25Retriever

    @property
    def name(self) -> str:
        """Names the folder and the number of passages."""
        return f"titles, {self.words.name}"

    @property
    def fingerprint(self) -> str:
        """Of the indexed documents, and of the way they are searched."""
        return f"titles, {self.words.fingerprint}"

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """At most `k` passages, best first. Raises what BM25 raises."""
        asked = set(query.lower().split())
        found = await self.words.search(query, 10 * k, exclude=exclude)
        kept = [hit for hit in found if asked & set(hit.passage.title.lower().split())][:k]
        return tuple(Hit(hit.passage, hit.score, rank) for rank, hit in enumerate(kept, start=1))


def open_titles(folder: Path) -> TitleRetriever:
    """The retriever over an index folder. Raises BadIndex as `open_index` does."""
    return TitleRetriever(open_index(folder))
