"""The ledger: which documents an index holds, so that a later build touches only what changed.

One SQLite file beside the index it describes. Which documents the current run has met is kept in a temporary
table, so that memory stays bounded however many there are.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from askance.retrieval.documents import Document
from askance.retrieval.places import PLACES_TABLES, VectorPlaces

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
CREATE TABLE IF NOT EXISTS state (stamp TEXT NOT NULL);
INSERT INTO state SELECT '' WHERE NOT EXISTS (SELECT 1 FROM state);
{PLACES_TABLES}
COMMIT;
"""
"""One transaction, which leaves alone what is there: a ledger has all of this or none of it."""
_MET = "CREATE TEMPORARY TABLE met (number INTEGER PRIMARY KEY)"
_IS_MET = "EXISTS (SELECT 1 FROM met WHERE met.number = documents.number)"


@dataclass(frozen=True, slots=True)
class Entry:
    """A document the ledger knows. `is_met` when the current run has come across it."""

    number: int
    id: str
    place: str
    digest: bytes
    is_met: bool


class Ledger:
    """The documents of one generation. Changes become durable together, at `commit`.

    Attributes:
        places: where the vectors of the documents lie, for those that have some.

    Raises:
        sqlite3.DatabaseError: the file is no ledger.
    """

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path)
        try:
            self._database.executescript(_TABLES)
            self._database.execute(_MET)
        except sqlite3.Error:
            self._database.close()
            raise
        self.places = VectorPlaces(self._database)

    def close(self) -> None:
        """Forget what was not committed."""
        self._database.close()

    def commit(self, stamp: str) -> None:
        """Make all changes durable; `stamp` names the commit of the index that they belong to."""
        self._database.execute("UPDATE state SET stamp = ?", (stamp,))
        self._database.commit()

    @property
    def stamp(self) -> str:
        """The stamp of the last commit, or an empty one."""
        return str(self._database.execute("SELECT stamp FROM state").fetchone()[0])

    def find(self, document: Document, digest: bytes) -> Entry | None:
        """The entry that `document` is, if it is known.

        That is the one with its id and content, wherever it was read; else one with its id and file that has
        not been met in this run, whose content has changed.
        """
        same = self._select("digest = ?", document.id, digest)
        return same or self._select(f"place = ? AND NOT {_IS_MET}", document.id, document.place)

    def free_id(self, given_id: str) -> str:
        """`given_id`, or with "~2", "~3" … when other documents have it."""
        id, count = given_id, 1
        while self._database.execute("SELECT 1 FROM documents WHERE id = ?", (id,)).fetchone():
            count += 1
            id = f"{given_id}~{count}"
        return id

    def add(self, document: Document, id: str, digest: bytes, num_passages: int) -> None:
        """Enter a new document, as met."""
        values = (id, document.id, document.place, digest, num_passages)
        insert = "INSERT INTO documents (id, given_id, place, digest, passages) VALUES (?, ?, ?, ?, ?)"
        self._meet(self._database.execute(insert, values).lastrowid)

    def replace(self, entry: Entry, document: Document, digest: bytes, num_passages: int) -> None:
        """Enter the changed content of a known document, as met."""
        values = (document.place, digest, num_passages, entry.number)
        update = "UPDATE documents SET place = ?, digest = ?, passages = ? WHERE number = ?"
        self._database.execute(update, values)
        self.places.forget(entry.number)
        self._meet(entry.number)

    def keep(self, entry: Entry) -> None:
        """Mark an unchanged document as met."""
        self._meet(entry.number)

    def vanished(self, roots: Iterable[str], kept_places: Set[str]) -> Iterator[Entry]:
        """Those not met in this run whose file is in or below `roots`, but not in or below `kept_places`."""
        below = "(place = ?1 OR substr(place, 1, length(?2)) = ?2)"
        query = f"SELECT number, id, place, digest, 0 FROM documents WHERE NOT {_IS_MET} AND {below}"
        for root in roots:
            for row in self._database.execute(query, (root, root.rstrip("/") + "/")).fetchall():
                if kept_places.isdisjoint((row[2], *map(str, Path(row[2]).parents))):
                    yield Entry(*row)

    def remove(self, entry: Entry) -> None:
        """Strike out a document."""
        self._database.execute("DELETE FROM documents WHERE number = ?", (entry.number,))
        self.places.forget(entry.number)

    def count(self) -> tuple[int, int]:
        """How many documents and passages there are."""
        query = "SELECT count(*), coalesce(sum(passages), 0) FROM documents"
        documents, passages = self._database.execute(query).fetchone()
        return int(documents), int(passages)

    def content_hash(self) -> str:
        """A hash of all ids and contents, in whatever order they were entered."""
        hashed = hashlib.blake2b(digest_size=16)
        for id, digest in self._database.execute("SELECT id, digest FROM documents ORDER BY id"):
            hashed.update(f"{id}\0".encode() + digest)
        return hashed.hexdigest()

    def _select(self, condition: str, given_id: str, value: str | bytes) -> Entry | None:
        query = (
            f"SELECT number, id, place, digest, {_IS_MET} FROM documents WHERE given_id = ? AND {condition}"
        )
        row = self._database.execute(f"{query} LIMIT 1", (given_id, value)).fetchone()
        return Entry(*row) if row else None

    def _meet(self, number: int | None) -> None:
        self._database.execute("INSERT OR IGNORE INTO met VALUES (?)", (number,))


def digest_of(document: Document) -> bytes:
    """16 bytes that stand for what of a document gets into the index, its source and id apart."""
    content = f"{document.is_row}\0{document.title}\0{document.text}"
    return hashlib.blake2b(content.encode(), digest_size=16).digest()
