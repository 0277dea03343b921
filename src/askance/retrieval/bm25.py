"""Lexical search: BM25 over an index."""

import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from askance.core.errors import InputError, RetrieverFailure
from askance.core.filters import FieldKinds, Filter, all_of
from askance.core.notes import note
from askance.core.types import Hit
from askance.retrieval.index.collection import CollectionReader
from askance.retrieval.index.lexical import Bm25Parameters
from askance.retrieval.index.reader import collection_of
from askance.retrieval.ranking import check_k
from askance.text.words import missing_scripts

MOST_K1 = 100


@dataclass(frozen=True, slots=True)
class IndexRetriever:
    """The base of retrievers over an index.

    Attributes:
        where: The filter of the documents to search; None searches all.
    """

    index: CollectionReader
    where: Filter | None = field(default=None, kw_only=True)

    @property
    def fields(self) -> FieldKinds:
        """The fields of the indexed documents."""
        return self.index.manifest.fields

    def filtered(self, where: Filter) -> Self:
        """Return a retriever that searches only the documents that pass `where`, too."""
        return replace(self, where=all_of(self.where, where))

    def _with_filter(self, text: str) -> str:
        return text if self.where is None else f"{text} where {self.where}"


@dataclass(frozen=True, slots=True)
class Bm25Retriever(IndexRetriever):
    """A `Retriever` that scores the title and text of each passage by BM25.

    A search finds the passages that contain any term of the query. A term that occurs n times in the query
    has n times the weight. Passages whose scores are equal to six significant digits are sorted by id. The
    same index and query always give the same hits. Passages that were removed or replaced still count in term
    statistics until tantivy merges them away, so an updated index may score slightly differently from a new
    one. The term statistics of a filtered search are those of all documents.

    Attributes:
        parameters: The parameters of BM25. With other than the default ones, the 1,000 best passages by these
            are scored again.
    """

    parameters: Bm25Parameters = Bm25Parameters()

    @property
    def name(self) -> str:
        """Return the folder, the number of passages, changed parameters, and the filter."""
        num_passages = f"{self.index.manifest.passages:,} passages{self._changed}"
        return self._with_filter(f"bm25 {self.index.place} ({num_passages})")

    @property
    def fingerprint(self) -> str:
        """Return a string that identifies the documents, their analysis, the parameters and the filter."""
        manifest = self.index.manifest
        return self._with_filter(f"{manifest.content_hash}, {manifest.analysis}{self._changed}")

    @property
    def _changed(self) -> str:
        """The parameters if they are not the default ones, otherwise nothing."""
        return "" if self.parameters == Bm25Parameters() else ", k1={:g}, b={:g}".format(*self.parameters)

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
            return await self.index.search_terms(
                terms, k, exclude=exclude, where=self.where, parameters=self.parameters
            )
        except (ValueError, OSError, sqlite3.Error) as error:
            raise RetrieverFailure(f"{self.name} could not be searched for {query!r:.99}: {error}") from error


def open_index(path: Path | str, k1: str | float = 1.2, b: str | float = 0.75) -> Bm25Retriever:
    """Return a BM25 retriever over the index in a folder or at a URL.

    Queries are analysed with the text analysis of the index.

    Raises:
        InputError: A parameter is no number in its range.
        BadIndex: The index is missing, empty, damaged or newer than this version.
    """
    numbers = [_number("k1", k1, MOST_K1), _number("b", b, 1)]
    return Bm25Retriever(collection_of(path).reader(), parameters=Bm25Parameters(*numbers))


def _number(name: str, value: str | float, most: float) -> float:
    with suppress(ValueError):
        if 0 <= float(value) <= most:
            return float(value)
    raise InputError(f"{name}={value!r} of the retriever bm25: give a number from 0 to {most}.")
