"""Search by words: BM25 over an index folder."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from askance.core.errors import RetrieverFailure
from askance.core.types import Hit
from askance.retrieval.index.lexical import Analysis, any_of
from askance.retrieval.index.store import Store, open_store
from askance.retrieval.ranking import best_hits, check_k


@dataclass(frozen=True, slots=True)
class Bm25Retriever:
    """A `Retriever` by BM25 (k1 1.2, b 0.75) over title and text of each passage.

    Passages with any term of the query are found; a repeated term counts as often. Passages of equal score,
    to six digits, come in the order of their ids. The same index and query always give the same hits. What is
    removed from an index or replaced still counts in word frequencies until tantivy merges it away, so that
    an updated index may score slightly otherwise than a new one.
    """

    store: Store

    @property
    def name(self) -> str:
        """Names the folder and the number of passages."""
        return f"bm25 {self.store.folder} ({self.store.manifest.passages:,} passages)"

    @property
    def fingerprint(self) -> str:
        """Of the indexed documents, and how they were analysed."""
        return f"{self.store.manifest.content_hash}, {self.store.manifest.analysis}"

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """At most `k` passages, best first; none for a query without a searchable word.

        Raises:
            InputError: `k` is below 1.
            RetrieverFailure: the index can't be read any more.
        """
        check_k(k)
        lexical, terms = self.store.lexical, self.store.manifest.analysis.terms(query)
        if not terms:
            return ()
        try:
            find = partial(lexical.best, any_of(terms))
            return await best_hits(find, lexical.passage, k, exclude, lexical.num_passages, len(terms))
        except (ValueError, OSError) as error:
            raise RetrieverFailure(f"{self.name} could not be searched for {query!r}: {error}") from error


def open_index(path: Path, *, analysis: Analysis | None = None) -> Bm25Retriever:
    """The retriever over the index in the folder `path`; it analyses queries as the index was.

    Args:
        analysis: insist on this one.

    Raises:
        BadIndex: the index is missing, empty, damaged, newer than this version, or built with another
            analysis.
    """
    return Bm25Retriever(open_store(path, analysis=analysis))
