"""The ledger: which documents an index holds, so that a later build touches only what changed.

One SQLite file beside the index it describes. It also says where the vectors of each document lie. They are
kept in segments, files of rows that are only ever added to: a document has as many rows, one after another,
as it has passages, and rows that no document points to are dead. Which documents the current run has met is
kept in a temporary table, so that memory stays bounded however many there are.
"""

import hashlib
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from askance.retrieval.index.documents import Document

_TABLES = """
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
CREATE TABLE IF NOT EXISTS state (stamp TEXT NOT NULL);
INSERT INTO state SELECT '' WHERE NOT EXISTS (SELECT 1 FROM state);
COMMIT;
"""
"""One transaction, which leaves alone what is there: a ledger has all of this or none of it."""
_ENTRIES = (
    "SELECT number, id, place, digest, passages, coalesce(segment, -1), coalesce(first_row, -1)"
    " FROM documents LEFT JOIN vectors ON document = number"
)
_NOT_ENCODED = "WHERE passages > 0 AND number NOT IN (SELECT document FROM vectors)"


class Damaged(ValueError):
    """Files of an index that contradict each other or themselves; says which."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A document the ledger knows.

    Attributes:
        id: unique in the index.
        passages: how many it has.
        segment, first_row: where its vectors begin; -1 if it has none.
    """

    number: int
    id: str
    place: str
    digest: bytes
    passages: int
    segment: int
    first_row: int


@dataclass(frozen=True, slots=True)
class VectorSegment:
    """A segment: how many of its rows are in use, and where the last of those ends."""

    number: int
    live: int
    end: int


class Ledger:
    """The documents of one generation. Changes become durable together, at `commit`.

    Args:
        is_finished: it belongs to a finished generation: it is only read, by any thread, also once the file
            is removed.

    Raises:
        sqlite3.Error: the file is no ledger.
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
            self._database.execute("CREATE TEMPORARY TABLE met (number INTEGER PRIMARY KEY)")

    def commit(self, stamp: str) -> None:
        """Make all changes durable; `stamp` names the commit of the index that they belong to."""
        self._database.execute("UPDATE state SET stamp = ?", (stamp,))
        self._database.commit()

    @property
    def stamp(self) -> str:
        """The stamp of the last commit, or an empty one."""
        return str(self._database.execute("SELECT stamp FROM state").fetchone()[0])

    def find(self, document: Document, digest: bytes) -> LedgerEntry | None:
        """The entry that `document` is, if it is known.

        That is the one with its id and content, wherever it was read; else one with its id and file that has
        not been met in this run, whose content has changed.
        """
        query = (
            f"{_ENTRIES} WHERE given_id = ?1 AND (digest = ?2 OR (place = ?3 AND number NOT IN met))"
            " ORDER BY digest = ?2 DESC, number LIMIT 1"
        )
        return next(self._entries(query, document.id, digest, document.place), None)

    def free_id(self, given_id: str) -> str:
        """`given_id`, or with "~2", "~3" … when other documents have it."""
        id, count = given_id, 1
        while self._database.execute("SELECT 1 FROM documents WHERE id = ?", (id,)).fetchone():
            count += 1
            id = f"{given_id}~{count}"
        return id

    def add(
        self, document: Document, id: str, digest: bytes, num_passages: int, number: int | None = None
    ) -> None:
        """Enter a document as met, under a new number unless it takes that of an entry that was removed."""
        values = (number, id, document.id, document.place, digest, num_passages)
        columns = "number, id, given_id, place, digest, passages"
        insert = f"INSERT INTO documents ({columns}) VALUES (?, ?, ?, ?, ?, ?)"
        self.meet(self._database.execute(insert, values).lastrowid)

    def meet(self, number: int | None) -> None:
        """Mark a document as met in this run."""
        self._database.execute("INSERT OR IGNORE INTO met VALUES (?)", (number,))

    def is_met(self, entry: LedgerEntry) -> bool:
        """Whether the current run has come across a document."""
        query = "SELECT count(*) FROM met WHERE number = ?"
        return bool(self._database.execute(query, (entry.number,)).fetchone()[0])

    def vanished(self, roots: Iterable[str], kept_places: Set[str]) -> Iterator[LedgerEntry]:
        """Those not met in this run whose file is in or below `roots`, but not in or below `kept_places`."""
        below = "(place = ?1 OR substr(place, 1, length(?2)) = ?2)"
        for root in roots:
            query = f"{_ENTRIES} WHERE number NOT IN met AND {below}"
            for entry in list(self._entries(query, root, root.rstrip("/") + "/")):
                if kept_places.isdisjoint((entry.place, *map(str, Path(entry.place).parents))):
                    yield entry

    def remove(self, entry: LedgerEntry) -> None:
        """Strike out a document, whose vectors are then no longer in use."""
        self._database.execute("DELETE FROM documents WHERE number = ?", (entry.number,))
        self._database.execute("DELETE FROM vectors WHERE document = ?", (entry.number,))

    def summary(self) -> tuple[int, int, str]:
        """How many documents and passages there are, and a hash of all ids and contents, in whatever order
        they were entered.
        """
        documents, passages, hashed = 0, 0, hashlib.blake2b(digest_size=16)
        query = "SELECT id, digest, passages FROM documents ORDER BY id"
        for id, digest, num_passages in self._database.execute(query):
            hashed.update(f"{id}\0".encode() + digest)
            documents, passages = documents + 1, passages + num_passages
        return documents, passages, hashed.hexdigest()

    def enter_vectors(self, entry: LedgerEntry, segment: int, first_row: int) -> None:
        """Enter where the vectors of a document begin, in place of what was entered before."""
        values = (entry.number, segment, first_row)
        self._database.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", values)

    def num_not_encoded(self) -> int:
        """How many passages have no vectors."""
        query = f"SELECT coalesce(sum(passages), 0) FROM documents {_NOT_ENCODED}"
        return int(self._database.execute(query).fetchone()[0])

    def not_encoded(self) -> Iterator[LedgerEntry]:
        """The documents with passages but without vectors, which may be entered meanwhile."""
        return self._entries(f"{_ENTRIES} {_NOT_ENCODED} ORDER BY number")

    def segments(self) -> list[VectorSegment]:
        """The segments that are in use."""
        query = (
            "SELECT segment, sum(passages), max(first_row + passages) FROM vectors"
            " JOIN documents ON number = document GROUP BY segment ORDER BY segment"
        )
        return [VectorSegment(*row) for row in self._database.execute(query)]

    def encoded_in(self, segment: int) -> Iterator[LedgerEntry]:
        """The documents of a segment in the order of their rows; they may be entered elsewhere meanwhile."""
        return self._entries(f"{_ENTRIES} WHERE segment = ? ORDER BY first_row", segment)

    def encoded_at(self, segment: int, row: int) -> LedgerEntry:
        """The document that a row belongs to.

        Raises:
            Damaged: none does.
        """
        query = f"{_ENTRIES} WHERE segment = ? AND first_row <= ? ORDER BY first_row DESC LIMIT 1"
        entry = next(self._entries(query, segment, row), None)
        if entry is None or row >= entry.first_row + entry.passages:
            raise Damaged(f"row {row:,} of the vectors {segment:06d}.f32 is no document's")
        return entry

    def _entries(self, query: str, *values: object) -> Iterator[LedgerEntry]:
        for row in self._database.execute(query, values):
            yield LedgerEntry(*row)


def digest_of(document: Document) -> bytes:
    """16 bytes that stand for what of a document gets into the index, its source and id apart."""
    content = f"{document.is_row}\0{document.title}\0{document.text}"
    return hashlib.blake2b(content.encode(), digest_size=16).digest()
