"""The document table: the documents that an index holds, so that a later build touches only what changed.

The table is one SQLite file beside the index that it describes. It also records where the vectors of each
document are. Vectors are rows of append-only files, called segments. A document has one row for each of its
passages, in order. Rows that belong to no document are dead. A temporary table holds the documents seen in
the current run, so memory use stays bounded for any number of documents.

The fields of the documents, which filters compare, are in the tables of `retrieval.filters`.
"""

import hashlib
import json
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from askance.core.filters import FieldKinds, Filter
from askance.retrieval.filters import FIELD_TABLES, add_fields, field_kinds, sql_condition
from askance.retrieval.index.documents import Document

_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS documents (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,    -- unique in the index
    given_id TEXT NOT NULL,     -- as the document has it
    place TEXT NOT NULL,
    digest BLOB NOT NULL,
    passages INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_given_id ON documents (given_id);
CREATE TABLE IF NOT EXISTS vectors (
    document INTEGER PRIMARY KEY,   -- its number
    segment INTEGER NOT NULL,
    first_row INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_row ON vectors (segment, first_row);
{FIELD_TABLES}
CREATE TABLE IF NOT EXISTS state (stamp TEXT NOT NULL);
INSERT INTO state SELECT '' WHERE NOT EXISTS (SELECT 1 FROM state);
COMMIT;
"""
"""One transaction that creates missing tables, so that a file has all of them or none."""
_ENTRIES = (
    "SELECT number, id, place, digest, passages, coalesce(segment, -1), coalesce(first_row, -1)"
    " FROM documents LEFT JOIN vectors ON document = number"
)
_NOT_ENCODED = "WHERE passages > 0 AND number NOT IN (SELECT document FROM vectors)"


class DamagedIndex(ValueError):
    """The files of an index are inconsistent. The message says where."""


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """A document in the table.

    Attributes:
        id: The id, unique in the index.
        segment, first_row: The segment and the row of the first vector; -1 if the document has no vectors.
    """

    number: int
    id: str
    path: str
    digest: bytes
    passages: int
    segment: int
    first_row: int


@dataclass(frozen=True, slots=True)
class VectorSegment:
    """A segment of vectors.

    Attributes:
        live: The number of rows in use.
        end: The number of rows up to and including the last row in use.
    """

    number: int
    live: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The documents that pass a filter.

    Attributes:
        numbers: The numbers of the documents in the table.
        is_selected: Whether each document passes, by its number. The last element belongs to no document and
            is false.
        num_passages: The number of passages of these documents.
    """

    numbers: NDArray[np.int64]
    is_selected: NDArray[np.bool_]
    num_passages: int


class DocumentTable:
    """The documents of one generation. Changes become durable together, at `commit`.

    Args:
        is_finished: True for a finished generation. The table is then read-only. Any thread may read it, even
            after the file is removed.

    Raises:
        sqlite3.Error: The file is not a document table.
    """

    def __init__(self, path: Path, *, is_finished: bool = False) -> None:
        if is_finished:
            uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
            self._database = sqlite3.connect(uri, uri=True, check_same_thread=False)
        else:
            self._database = sqlite3.connect(path)
        self.close = weakref.finalize(self, self._database.close)
        if not is_finished:
            self._database.executescript(_TABLES)
            self._database.execute("CREATE TEMPORARY TABLE seen (number INTEGER PRIMARY KEY)")

    def commit(self, stamp: str) -> None:
        """Make all changes durable.

        Args:
            stamp: The name of the lexical commit to which the changes belong.
        """
        self._database.execute("UPDATE state SET stamp = ?", (stamp,))
        self._database.commit()

    @property
    def stamp(self) -> str:
        """Return the stamp of the last commit, or an empty string if there is none."""
        return str(self._database.execute("SELECT stamp FROM state").fetchone()[0])

    def find(self, document: Document, digest: bytes) -> DocumentEntry | None:
        """Return the entry that matches `document`, or None.

        An entry with the same id and content matches, even if the file is different. Otherwise an entry with
        the same id and file matches, unless it was already seen in this run. Such an entry has outdated
        content.
        """
        query = (
            f"{_ENTRIES} WHERE given_id = ?1 AND (digest = ?2 OR (place = ?3 AND number NOT IN seen))"
            " ORDER BY digest = ?2 DESC, number LIMIT 1"
        )
        return next(self._entries(query, document.id, digest, document.path), None)

    def matching(
        self, conditions: Mapping[str, object] = {}, where: Filter | None = None
    ) -> Iterator[DocumentEntry]:
        """Yield the documents that pass a filter and for which all conditions are true, sorted by id.

        Args:
            conditions: The conditions in SQL, such as "id = ?", each with its value; None is no condition.
        """
        condition, parameters = ("true", []) if where is None else sql_condition(where)
        given = {each: value for each, value in conditions.items() if value is not None}
        query = f"{_ENTRIES} WHERE {' AND '.join([condition, *given])} ORDER BY id"
        return self._entries(query, *parameters, *given.values())

    def select(self, where: Filter) -> Selection:
        """Return the documents that pass a filter."""
        condition, parameters = sql_condition(where)
        query = f"SELECT number, passages FROM documents WHERE {condition}"
        cells = chain.from_iterable(self._database.execute(query, parameters))
        rows = np.fromiter(cells, dtype=np.int64).reshape(-1, 2)
        last = self._database.execute("SELECT coalesce(max(number), 0) FROM documents").fetchone()[0]
        is_selected = np.zeros(last + 2, dtype=bool)
        is_selected[rows[:, 0]] = True
        return Selection(rows[:, 0], is_selected, int(rows[:, 1].sum()))

    def free_id(self, given_id: str) -> str:
        """Return `given_id` or, if that id is taken, `given_id` followed by "~2", "~3" and so on."""
        id, count = given_id, 1
        while self._database.execute("SELECT 1 FROM documents WHERE id = ?", (id,)).fetchone():
            count += 1
            id = f"{given_id}~{count}"
        return id

    def add(
        self, document: Document, id: str, digest: bytes, num_passages: int, number: int | None = None
    ) -> int:
        """Add a document, mark it as seen, and return its number.

        Args:
            number: The number of a removed entry to reuse; None assigns a new number.
        """
        values = (number, id, document.id, document.path, digest, num_passages)
        added = self._database.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", values).lastrowid
        assert added is not None  # SQLite sets it after every INSERT
        add_fields(self._database, added, document.searchable_fields)
        self.mark_seen(added)
        return added

    def used_fields(self) -> FieldKinds:
        """Remove the values that no document has, and return the fields with the types of their values."""
        used = "SELECT 1 FROM document_values WHERE value_id = id"
        self._database.execute(f"DELETE FROM field_values WHERE NOT EXISTS ({used})")
        return field_kinds(self._database)

    def mark_seen(self, number: int | None) -> None:
        """Mark a document as seen in this run."""
        self._database.execute("INSERT OR IGNORE INTO seen VALUES (?)", (number,))

    def is_seen(self, entry: DocumentEntry) -> bool:
        """Return whether a document was seen in this run."""
        query = "SELECT count(*) FROM seen WHERE number = ?"
        return bool(self._database.execute(query, (entry.number,)).fetchone()[0])

    def not_seen(self, roots: Iterable[str], kept_paths: Set[str]) -> Iterator[DocumentEntry]:
        """Yield the documents that this run should have seen but did not.

        Their files are in or below `roots`, but not in or below `kept_paths`.
        """
        below = "(place = ?1 OR substr(place, 1, length(?2)) = ?2)"
        for root in roots:
            query = f"{_ENTRIES} WHERE number NOT IN seen AND {below}"
            for entry in list(self._entries(query, root, root.rstrip("/") + "/")):
                if kept_paths.isdisjoint((entry.path, *map(str, Path(entry.path).parents))):
                    yield entry

    def remove(self, entry: DocumentEntry) -> None:
        """Remove a document, which makes the rows of its vectors dead."""
        self._database.execute("DELETE FROM documents WHERE number = ?", (entry.number,))
        for table in ("vectors", "document_values"):
            self._database.execute(f"DELETE FROM {table} WHERE document = ?", (entry.number,))

    def summary(self) -> tuple[int, int, str]:
        """Return the counts of documents and passages, and a hash of all ids and contents.

        The hash does not depend on the order in which documents were added.
        """
        documents, passages, hashed = 0, 0, hashlib.blake2b(digest_size=16)
        query = "SELECT id, digest, passages FROM documents ORDER BY id"
        for id, digest, num_passages in self._database.execute(query):
            hashed.update(f"{id}\0".encode() + digest)
            documents, passages = documents + 1, passages + num_passages
        return documents, passages, hashed.hexdigest()

    def enter_vectors(self, entry: DocumentEntry, segment: int, first_row: int) -> None:
        """Record where the vectors of a document begin, replacing any earlier record."""
        values = (entry.number, segment, first_row)
        self._database.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", values)

    def num_not_encoded(self) -> int:
        """Return the number of passages without vectors."""
        query = f"SELECT coalesce(sum(passages), 0) FROM documents {_NOT_ENCODED}"
        return int(self._database.execute(query).fetchone()[0])

    def not_encoded(self) -> Iterator[DocumentEntry]:
        """Yield the documents whose passages have no vectors.

        Vectors may be added during the iteration.
        """
        return self._entries(f"{_ENTRIES} {_NOT_ENCODED} ORDER BY number")

    def segment(self) -> VectorSegment:
        """Return the segment that is in use, or the first one, still empty, if there are no vectors."""
        query = (
            "SELECT coalesce(max(segment), 1), coalesce(sum(passages), 0),"
            " coalesce(max(first_row + passages), 0) FROM vectors JOIN documents ON number = document"
        )
        return VectorSegment(*self._database.execute(query).fetchone())

    def encoded_in(self, segment: int) -> Iterator[DocumentEntry]:
        """Yield the documents whose vectors are in a segment, in row order.

        Their vectors may be moved to another segment during the iteration.
        """
        return self._entries(f"{_ENTRIES} WHERE segment = ? ORDER BY first_row", segment)

    def _entries(self, query: str, *values: object) -> Iterator[DocumentEntry]:
        for row in self._database.execute(query, values):
            yield DocumentEntry(*row)


def content_digest(document: Document) -> bytes:
    """Return a 16-byte hash of the indexed content of a document, without its source and id."""
    content = f"{document.is_row}\0{document.title}\0{document.text}"
    for mark in document.marks:
        content += f"\0{mark.start} {mark.page} {mark.section}"
    if document.fields:
        content += f"\0{json.dumps(document.fields, sort_keys=True)}"
    return hashlib.blake2b(content.encode(), digest_size=16).digest()
