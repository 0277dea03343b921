"""Where the vectors of each document lie: a table in the ledger of an index.

Vectors are kept in segments, files of rows that are only ever added to. A document's vectors are as many
rows, one after another, as it has passages. Rows that no document points to any more are dead.
"""

import sqlite3
import weakref
from dataclasses import dataclass
from pathlib import Path

PLACES_TABLES = """
CREATE TABLE IF NOT EXISTS vectors (
    document INTEGER PRIMARY KEY,   -- its number
    segment INTEGER NOT NULL,
    first_row INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS by_row ON vectors (segment, first_row);
"""
_PAGE = 1000


class Damaged(ValueError):
    """Files of an index that contradict each other or themselves; says which."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment: how many of its rows are in use, and where the last of those ends."""

    number: int
    live: int
    end: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """A document with its number and id, how many passages it has, and its first row if it has vectors."""

    number: int
    id: str
    passages: int
    first_row: int = -1


class VectorPlaces:
    """The table in an open ledger."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def enter(self, document: int, segment: int, first_row: int) -> None:
        """Enter where the vectors of a document begin, in place of what was entered before."""
        values = (document, segment, first_row)
        self._database.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", values)

    def forget(self, document: int) -> None:
        """A document has no vectors any more."""
        self._database.execute("DELETE FROM vectors WHERE document = ?", (document,))

    def num_missing(self) -> int:
        """How many passages have no vectors."""
        query = (
            "SELECT coalesce(sum(passages), 0) FROM documents"
            " WHERE number NOT IN (SELECT document FROM vectors)"
        )
        return int(self._database.execute(query).fetchone()[0])

    def missing(self, after: int = 0) -> list[Encoded]:
        """The first documents with passages but without vectors whose number is above `after`."""
        query = (
            "SELECT number, id, passages FROM documents WHERE number > ? AND passages > 0"
            " AND number NOT IN (SELECT document FROM vectors) ORDER BY number LIMIT ?"
        )
        return [Encoded(*row) for row in self._database.execute(query, (after, _PAGE))]

    def segments(self) -> list[Segment]:
        """The segments that are in use."""
        query = (
            "SELECT segment, sum(passages), max(first_row + passages) FROM vectors"
            " JOIN documents ON number = document GROUP BY segment ORDER BY segment"
        )
        return [Segment(*row) for row in self._database.execute(query)]

    def documents_in(self, segment: int, from_row: int = 0) -> list[Encoded]:
        """The first documents of a segment from a row on, in the order of their rows."""
        query = (
            "SELECT number, id, passages, first_row FROM vectors JOIN documents ON number = document"
            " WHERE segment = ? AND first_row >= ? ORDER BY first_row LIMIT ?"
        )
        return [Encoded(*row) for row in self._database.execute(query, (segment, from_row, _PAGE))]

    def document_at(self, segment: int, row: int) -> Encoded:
        """The document that a row belongs to.

        Raises:
            Damaged: none does.
        """
        query = (
            "SELECT number, id, passages, first_row FROM vectors JOIN documents ON number = document"
            " WHERE segment = ? AND first_row <= ? ORDER BY first_row DESC LIMIT 1"
        )
        found = self._database.execute(query, (segment, row)).fetchone()
        document = None if found is None else Encoded(*found)
        if document is None or row >= document.first_row + document.passages:
            raise Damaged(f"row {row:,} of the vectors {segment:06d}.f32 is no document's")
        return document


def open_places(ledger: Path) -> VectorPlaces:
    """The table in the ledger of a finished generation, which never changes and may be removed meanwhile.

    Raises:
        sqlite3.Error: the file is no such ledger.
    """
    uri = f"{ledger.resolve().as_uri()}?mode=ro&immutable=1"
    database = sqlite3.connect(uri, uri=True, check_same_thread=False)
    places = VectorPlaces(database)
    weakref.finalize(places, database.close)
    return places
