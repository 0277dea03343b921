"""The reader of an index folder: search by terms or by a vector, and fetch passages and documents."""

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import BadIndex
from askance.core.filters import Filter
from askance.core.ports import Encoder
from askance.core.types import Hit, Passage
from askance.retrieval.index.collection import Collection, CollectionReader
from askance.retrieval.index.document_table import DamagedIndex, DocumentTable, Selection
from askance.retrieval.index.index_folder import (
    DOCUMENTS,
    LEXICAL,
    MANIFEST,
    VECTORS,
    EncoderRecord,
    Manifest,
    generation_folder,
    read_manifest,
    record_of,
)
from askance.retrieval.index.lexical import Bm25Parameters, any_term_query, open_lexical
from askance.retrieval.index.passages import passage_id
from askance.retrieval.index.vectors import FlatIndex
from askance.retrieval.ranking import best_hits

if TYPE_CHECKING:
    from askance.retrieval.index.writer import IndexWriter

_NUM_TRIES = 3
_SELECTIONS_KEPT = 64


class IndexReader(CollectionReader):
    """One generation of an index. It stays valid and unchanged while a build writes a new one.

    Args:
        made_by: The encoder that made the vectors; None leaves them unopened.
    """

    def __init__(self, folder: Path, manifest: Manifest, made_by: EncoderRecord | None) -> None:
        self.place, self.manifest = folder, manifest
        path = generation_folder(folder, manifest.generation)
        self.lexical = open_lexical(path / LEXICAL)
        self._table: DocumentTable | Exception
        try:
            self._table = DocumentTable(path / DOCUMENTS, is_finished=True)
        except (sqlite3.Error, ValueError) as error:  # words are found without it
            self._table = error
        self.vectors, self.dimensions = None, made_by.dimensions if made_by else 0
        if made_by is not None:
            self.vectors = FlatIndex(path / VECTORS, self._documents, self.dimensions)
        # Two threads must not use one SQLite connection at the same time.
        self._lock = threading.Lock()
        self._selections: dict[str, Selection] = {}

    @property
    def _documents(self) -> DocumentTable:
        if isinstance(self._table, Exception):
            raise self._table
        return self._table

    async def search_terms(
        self,
        terms: Sequence[str],
        k: int,
        *,
        exclude: frozenset[str] = frozenset(),
        where: Filter | None = None,
        parameters: Bm25Parameters = Bm25Parameters(),
    ) -> tuple[Hit, ...]:
        lexical, query, selection = self.lexical, any_term_query(terms), await self._selection(where)
        find, num_all = partial(lexical.search, query), lexical.num_passages
        if selection is not None:
            find, num_all = partial(lexical.search_selected, query, selection), selection.num_passages
        if parameters != Bm25Parameters():
            find = partial(lexical.rescored, find, query, parameters)
        return await best_hits(find, lexical.passage, k, exclude, num_all, len(terms))

    async def search_vector(
        self,
        vector: NDArray[np.float32],
        k: int,
        *,
        exclude: frozenset[str] = frozenset(),
        where: Filter | None = None,
    ) -> tuple[Hit, ...]:
        vectors, selection = self.vectors, await self._selection(where)
        assert vectors is not None
        find = partial(vectors.search, vector, selection=selection)
        return await best_hits(find, self._passage, k, exclude, vectors.num_vectors, self.dimensions)

    def passages_of(self, document_id: str) -> dict[str, Passage]:
        return self.lexical.passages_of(document_id)

    async def _selection(self, where: Filter | None) -> Selection | None:
        if where is None:
            return None
        return self._selections.get(str(where)) or await asyncio.to_thread(self._select, where)

    def _select(self, where: Filter) -> Selection:
        """Return the documents that pass a filter, which are kept for the next searches."""
        key = str(where)
        with self._lock:
            if key not in self._selections:
                self._selections[key] = self._documents.select(where)
                if len(self._selections) > _SELECTIONS_KEPT:
                    self._selections.pop(next(iter(self._selections)))
            return self._selections[key]

    def _passage(self, row: int) -> Passage:
        """Return the passage of a row of the vectors."""
        assert self.vectors is not None
        with self._lock:
            (document,) = self._documents.matching({"number = ?": int(self.vectors.owners[row])})
        id = passage_id(document.id, row - document.first_row + 1, document.passages)
        passage = self.passages_of(document.id).get(id)
        if passage is None:
            raise DamagedIndex(f"the passage {id!r} has a vector and is not in the index")
        return passage


@dataclass(frozen=True, slots=True)
class FolderCollection:
    """A `Collection` in a folder (see `index_folder`)."""

    place: Path

    def state(self) -> object:
        with suppress(OSError):
            return (self.place / MANIFEST).read_bytes()
        return None

    def manifest(self) -> Manifest:
        return read_manifest(self.place)

    def reader(self, encoder: Encoder | None = None) -> "IndexReader":
        return open_index_reader(self.place, encoder=encoder)

    def writer(self, **options: Any) -> AbstractContextManager["IndexWriter"]:
        from askance.retrieval.index.writer import open_writer  # only changes need it

        return open_writer(self.place, **options)


def collection_of(place: str | Path) -> Collection:
    """Return the collection in a folder, or at a URL.

    Raises:
        BadIndex: The URL is none of a collection.
        MissingExtra: The client of the server is not installed.
    """
    scheme, is_url, _ = str(place).partition("://")
    if not is_url:
        return FolderCollection(Path(place))
    if scheme in ("postgres", "postgresql"):
        from askance.retrieval.index.postgres import PostgresCollection  # needs the extra

        return PostgresCollection(str(place))
    raise BadIndex(
        f"{scheme}:// is no place of an index: name a folder, or postgresql://HOST/DB?collection=NAME."
    )


def open_index_reader(folder: Path, *, encoder: Encoder | None = None) -> IndexReader:
    """Open the index in `folder`.

    Args:
        encoder: The encoder that must have made the vectors. With an encoder, the vectors are opened as well.

    Raises:
        BadIndex: The index is missing, empty, damaged or newer than this version, or has no vectors of the
            encoder.
    """
    for _ in range(_NUM_TRIES):
        manifest = FolderCollection(folder).manifest()
        if manifest.passages == 0:
            raise BadIndex(f"the index {folder} is empty: add documents to it with `askance index`.")
        made_by = None if encoder is None else record_of(encoder, folder, manifest)
        try:
            return IndexReader(folder, manifest, made_by)
        except (ValueError, OSError, sqlite3.Error) as error:
            problem: Exception = error
        if FolderCollection(folder).manifest().generation == manifest.generation:
            break
        # A build has replaced and removed this generation in the meantime.
    raise BadIndex(
        f"the index {folder}, written by {manifest.engine}, can't be opened ({problem}): "
        f"{_remedy(generation_folder(folder, manifest.generation), problem)}."
    ) from problem


def _remedy(path: Path, problem: Exception) -> str:
    """Return what the user can do about `problem`.

    Deleting the index is the remedy only if the index is damaged.
    """
    try:
        # The libraries that read an index report missing permissions as damage.
        for each in path.rglob("*"):
            if each.is_file():
                each.open("rb").close()
    except PermissionError as error:
        problem = error
    if isinstance(problem, PermissionError):
        return f"have its owner let you read {problem.filename or path}"
    if isinstance(problem, OSError) and not isinstance(problem, FileNotFoundError):
        return "mend what the message says, and try again"
    return "delete the folder and build the index again"
