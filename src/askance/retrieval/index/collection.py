"""Collections: where an index is kept, be it a folder or a server. Callers know no other way to an index."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance.core.filters import Filter
from askance.core.ports import Encoder
from askance.core.types import Hit, Passage
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.build_report import BuildProgress
from askance.retrieval.index.document_table import DocumentEntry, DocumentTable
from askance.retrieval.index.index_folder import Manifest
from askance.retrieval.index.lexical import Bm25Parameters
from askance.retrieval.index.passages import Chunking

if TYPE_CHECKING:
    from askance.retrieval.index.writer import IndexWriter

_NUMBERED = re.compile(r"(.*)#\d+", re.DOTALL)


class Collection(Protocol):
    """Documents with their passages and vectors, in a folder or in a server.

    Attributes:
        place: The folder, or the URL.
    """

    @property
    def place(self) -> Path | str: ...

    def state(self) -> object:
        """Return what changes with each commit, or None if there is no index."""

    def manifest(self) -> Manifest:
        """Return the manifest of the last commit.

        Raises:
            BadIndex: There is no index, or it can't be read.
        """

    def reader(self, encoder: Encoder | None = None) -> "CollectionReader":
        """Open the index for searches (see `reader.open_index_reader`)."""

    def writer(
        self,
        *,
        analysis: Analysis | None = None,
        encoder: Encoder | None = None,
        chunking: Chunking | None = None,
        progress: Callable[[BuildProgress], None] | None = None,
    ) -> AbstractContextManager["IndexWriter"]:
        """Open the index, which need not exist, for changes (see `writer.open_writer`)."""


class CollectionReader(ABC):
    """One state of an index, opened for searches. Several threads may use the object at the same time.

    A method raises ValueError, OSError or sqlite3.Error if the index can no longer be read.

    Attributes:
        place: The folder, or the URL.
        dimensions: The number of dimensions of the vectors; 0 if they are not opened.
    """

    place: Path | str
    manifest: Manifest
    dimensions: int
    _lock: AbstractContextManager[Any]

    @property
    @abstractmethod
    def _documents(self) -> DocumentTable:
        """The documents. Only one thread at a time may use them, which holds the lock."""

    @abstractmethod
    async def search_terms(
        self,
        terms: Sequence[str],
        k: int,
        *,
        exclude: frozenset[str] = frozenset(),
        where: Filter | None = None,
        parameters: Bm25Parameters = Bm25Parameters(),
    ) -> tuple[Hit, ...]:
        """Return the `k` best passages by BM25, best first (see `lexical.any_term_query`).

        Args:
            exclude: The ids of passages to ignore.
            where: The filter of the documents to search; None searches all.
        """

    @abstractmethod
    async def search_vector(
        self,
        vector: NDArray[np.float32],
        k: int,
        *,
        exclude: frozenset[str] = frozenset(),
        where: Filter | None = None,
    ) -> tuple[Hit, ...]:
        """Return the `k` passages whose vectors have the greatest inner products with `vector`, best first.

        The vectors must have been opened. For the arguments, see `search_terms`.
        """

    @abstractmethod
    def passages_of(self, document_id: str) -> dict[str, Passage]:
        """Return the passages of a document by their ids."""

    def fetch(self, id: str, where: Filter | None = None) -> Passage | None:
        """Return the passage with this id, or None if there is none of a document that passes the filter."""
        numbered = _NUMBERED.fullmatch(id)
        for document_id in (id, *([numbered[1]] if numbered else [])):
            passage = self.passages_of(document_id).get(id)
            if passage is not None and where is not None:
                with self._lock:
                    is_selected = any(self._documents.matching({"id = ?": document_id}, where))
                return passage if is_selected else None
            if passage is not None:
                return passage
        return None

    def documents(
        self,
        *,
        prefix: str | None = None,
        other_than: str | None = None,
        after: str | None = None,
        where: Filter | None = None,
        is_wanted: Callable[[DocumentEntry], bool] = lambda document: True,
        limit: int | None = None,
    ) -> list[DocumentEntry]:
        """Return the first `limit` documents that are wanted and pass a filter, sorted by id.

        Args:
            prefix: What their paths begin with.
            other_than: The path that they do not have.
            after: The id after which the list begins.
        """
        with self._lock:
            end = prefix and prefix[:-1] + chr(ord(prefix[-1]) + 1)
            conditions = {"place >= ?": prefix, "place < ?": end, "place != ?": other_than, "id > ?": after}
            found = self._documents.matching(conditions, where)
            return list(islice(filter(is_wanted, found), limit))
