"""Lexical search: BM25 over an index folder."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from askance.core.errors import RetrieverFailure
from askance.core.notes import note
from askance.core.types import Hit
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.index_folder import IndexReader, open_index_reader
from askance.retrieval.index.lexical import any_term_query
from askance.retrieval.ranking import best_hits, check_k


@dataclass(frozen=True, slots=True)
class Bm25Retriever:
    """A `Retriever` that scores the title and text of each passage by BM25 (k1 1.2, b 0.75).

    A search finds the passages that contain any term of the query. A term that occurs n times in the query
    has n times the weight. Passages whose scores are equal to six significant digits are sorted by id. The
    same index and query always give the same hits. Passages that were removed or replaced still count in term
    statistics until tantivy merges them away, so an updated index may score slightly differently from a new
    one.
    """

    index: IndexReader

    @property
    def name(self) -> str:
        """Return the folder and the number of passages."""
        return f"bm25 {self.index.folder} ({self.index.manifest.passages:,} passages)"

    @property
    def fingerprint(self) -> str:
        """Return a string that identifies the indexed documents and their text analysis."""
        return f"{self.index.manifest.content_hash}, {self.index.manifest.analysis}"

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return at most `k` passages, best first.

        A query without a searchable word finds none. If hardly any passage has letters of a script of the
        query, a note says so (see `core.notes`).

        Raises:
            InputError: `k` is below 1.
            RetrieverFailure: The index can no longer be read.
        """
        check_k(k)
        lexical, terms = self.index.lexical, self.index.manifest.analysis.terms(query)
        if missing := self.index.manifest.missing_scripts(query):
            note("script", missing)
        if not terms:
            return ()
        try:
            find = partial(lexical.search, any_term_query(terms))
            return await best_hits(find, lexical.passage, k, exclude, lexical.num_passages, len(terms))
        except (ValueError, OSError) as error:
            raise RetrieverFailure(f"{self.name} could not be searched for {query!r}: {error}") from error


def open_index(path: Path, *, analysis: Analysis | None = None) -> Bm25Retriever:
    """Return a BM25 retriever over the index in the folder `path`.

    Queries are analysed with the text analysis of the index.

    Args:
        analysis: The text analysis that the index must have been built with; None accepts any.

    Raises:
        BadIndex: The index is missing, empty, damaged, newer than this version, or built with another
            analysis.
    """
    return Bm25Retriever(open_index_reader(path, analysis=analysis))
