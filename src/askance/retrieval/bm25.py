"""Lexical search: BM25 over an index folder."""

import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from askance.core.errors import RetrieverFailure
from askance.core.filters import FieldKinds, Filter, all_of
from askance.core.notes import note
from askance.core.types import Hit
from askance.retrieval.index.reader import IndexReader, open_index_reader
from askance.retrieval.ranking import check_k
from askance.text.words import missing_scripts


@dataclass(frozen=True, slots=True)
class IndexRetriever:
    """The base of retrievers over an index.

    Attributes:
        where: The filter of the documents to search; None searches all.
    """

    index: IndexReader
    where: Filter | None = field(default=None, kw_only=True)

    @property
    def fields(self) -> FieldKinds:
        """The fields of the indexed documents."""
        return self.index.fields

    def filtered(self, where: Filter) -> Self:
        """Return a retriever that searches only the documents that pass `where`, too."""
        return replace(self, where=all_of(self.where, where))

    def _with_filter(self, text: str) -> str:
        return text if self.where is None else f"{text} where {self.where}"


@dataclass(frozen=True, slots=True)
class Bm25Retriever(IndexRetriever):
    """A `Retriever` that scores the title and text of each passage by BM25 (k1 1.2, b 0.75).

    A search finds the passages that contain any term of the query. A term that occurs n times in the query
    has n times the weight. Passages whose scores are equal to six significant digits are sorted by id. The
    same index and query always give the same hits. Passages that were removed or replaced still count in term
    statistics until tantivy merges them away, so an updated index may score slightly differently from a new
    one. The term statistics of a filtered search are those of all documents.
    """

    @property
    def name(self) -> str:
        """Return the folder, the number of passages, and the filter."""
        return self._with_filter(f"bm25 {self.index.folder} ({self.index.manifest.passages:,} passages)")

    @property
    def fingerprint(self) -> str:
        """Return a string that identifies the indexed documents, their text analysis, and the filter."""
        return self._with_filter(f"{self.index.manifest.content_hash}, {self.index.manifest.analysis}")

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return at most `k` passages, best first.

        A query without a searchable word finds none. If hardly any passage has letters of a script of the
        query, a note says so (see `core.notes`).

        Raises:
            InputError: `k` is below 1.
            RetrieverFailure: The index can no longer be read.
        """
        check_k(k)
        manifest = self.index.manifest
        terms = manifest.analysis.terms(query)
        if missing := missing_scripts(query, manifest.scripts, manifest.passages):
            note("script", missing)
        if not terms:
            return ()
        try:
            return await self.index.search_terms(terms, k, exclude=exclude, where=self.where)
        except (ValueError, OSError, sqlite3.Error) as error:
            raise RetrieverFailure(f"{self.name} could not be searched for {query!r}: {error}") from error


def open_index(path: Path) -> Bm25Retriever:
    """Return a BM25 retriever over the index in the folder `path`.

    Queries are analysed with the text analysis of the index.

    Raises:
        BadIndex: The index is missing, empty, damaged or newer than this version.
    """
    return Bm25Retriever(open_index_reader(path))
