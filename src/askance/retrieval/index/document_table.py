"""The document table: the documents that an index holds, so that a later build touches only what changed.

The table is in two files (see `document_files`). It also records where the vectors of each document are.
Vectors are rows of append-only files, called segments. A document has one row for each of its passages, in
order. Rows that belong to no document are dead. A temporary table holds the older documents seen in the
current run, so memory use stays bounded for any number of documents.

The fields of documents, which filters compare, are in the views that `retrieval.filters` describes. What the
rows of a file have in common is recorded once, with the file. Each distinct value of another field is one
row, so a comparison searches an index. Only titles and the properties of files are compared one by one.
"""

import dataclasses
import hashlib
import json
import sqlite3
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from askance.core.filters import FieldKind, FieldKinds, Filter
from askance.retrieval.filters import (
    KNOWN_FIELDS,
    STORAGE_CLASSES,
    field_kinds,
    kind_of,
    sql_condition,
    stored,
)
from askance.retrieval.index.document_files import TABLES, UNCHANGING
from askance.retrieval.index.documents import Document
from askance.retrieval.index.index_folder import BASE

_PENDING_ROWS = 1_000
_CACHE_KB = 32_000
_ENTRIES = "SELECT number, id, place, digest, passages, scripts, segment, first_row FROM documents"
DOCUMENTS = (
    "SELECT old.number AS number, id, given_id, place, title, source, path, type, date, digest, passages,"
    " scripts, coalesce(new.segment, vectors.segment, -1) AS segment,"
    " coalesce(new.first_row, vectors.first_row, -1) AS first_row"
    " FROM {0}.documents AS old JOIN {0}.files AS file ON file.number = old.file"
    " LEFT JOIN main.vectors AS new ON new.document = old.number"
    " LEFT JOIN {0}.vectors AS vectors ON vectors.document = old.number"
)
_VALUES = "SELECT name, value, document FROM {0}.document_values JOIN {0}.field_values ON id = value_id"
_UNSEEN = "NOT EXISTS (SELECT 1 FROM seen WHERE seen.number = documents.number)"
KEEP_STATE = (
    "INSERT INTO main.state VALUES (?, ?) ON CONFLICT (number) DO UPDATE SET content = excluded.content"
)
_ENTER_VECTORS = (
    "INSERT INTO main.vectors VALUES (?, ?, ?)"
    " ON CONFLICT (document) DO UPDATE SET segment = excluded.segment, first_row = excluded.first_row"
)
GIVEN_ID = "(given_id = ? OR id = ? AND given_id IS NULL)"
"""The condition that a document itself has some id."""


class DamagedIndex(ValueError):
    """The files of an index are inconsistent. The message says where."""


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """A document in the table.

    Attributes:
        id: The id, unique in the index.
        scripts: The number of passages with letters of each script, as the table has it.
        segment, first_row: The segment and the row of the first vector; -1 if the document has no vectors.
    """

    number: int
    id: str
    path: str
    digest: bytes
    passages: int
    scripts: str
    segment: int
    first_row: int


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


@dataclass(slots=True)
class TableState:
    """The counts of all documents together, and the state of their vectors.

    Attributes:
        stamp: The name of the lexical commit to which the last commit belongs; empty if there is none.
        hash: The sum of a hash of each document with its id, so it does not depend on their order.
        last_number: The greatest number that a document has had.
        encoded_up_to: The number up to which all documents have vectors.
        segment: The segment of vectors that is in use.
        live: The number of its rows in use.
        end: A number of rows that has all rows in use.
        scripts: The number of passages with letters of each script.
        fields: The number of documents with each field, by the type of its value.
    """

    stamp: str = ""
    documents: int = 0
    passages: int = 0
    hash: int = 0
    last_number: int = 0
    encoded_up_to: int = 0
    segment: int = 1
    live: int = 0
    end: int = 0
    scripts: dict[str, int] = field(default_factory=dict)
    fields: dict[str, dict[FieldKind, int]] = field(default_factory=dict)

    def count(self, id: str, digest: bytes, passages: int, scripts: str, sign: int) -> None:
        """Count a document that is added (1) or removed (-1), without its fields and vectors."""
        hashed = hashlib.blake2b(f"{id}\0".encode() + digest, digest_size=16).digest()
        self.hash = (self.hash + sign * int.from_bytes(hashed)) % (1 << 128)
        self.documents += sign
        self.passages += sign * passages
        for name, count in (json.loads(scripts) if scripts else {"Latin": passages}).items():
            self.scripts[name] = self.scripts.get(name, 0) + sign * count

    def count_field(self, name: str, kind: FieldKind, sign: int) -> None:
        """Count a field of a document that is added (1) or removed (-1)."""
        kinds = self.fields.setdefault(name, {})
        kinds[kind] = kinds.get(kind, 0) + sign


@cache
def state_type() -> TypeAdapter[TableState]:
    return TypeAdapter(TableState)


def views_of(has_base: bool) -> str:
    """Return the statements that create the views of the documents and of their fields in both files."""
    documents, fields = DOCUMENTS.format("main"), _VALUES.format("main")
    if has_base:
        hidden = "SELECT number FROM main.hidden"
        documents += f" UNION ALL {DOCUMENTS.format('base')} WHERE old.number NOT IN ({hidden})"
        fields += f" UNION ALL {_VALUES.format('base')}"
    views = {"documents": documents, "fields": fields}
    for name in KNOWN_FIELDS:
        known = f"SELECT '{name}', {name}, number FROM documents WHERE {name} != ''"
        views[f"{name}_fields"] = f"SELECT name, value, document FROM fields UNION ALL {known}"
    return "".join(f"CREATE TEMPORARY VIEW {name} AS {query};\n" for name, query in views.items())


class DocumentTable:
    """The documents of one generation. Changes become durable together, at `commit`.

    Args:
        path: The file of changes, in the folder of the generation.
        is_finished: True for a finished generation. The table is then read-only. Any thread may read it, even
            after its files are removed.

    Raises:
        sqlite3.Error, ValueError: The files are not a document table.
    """

    def __init__(self, path: Path, *, is_finished: bool = False) -> None:
        uri, base = path.resolve().as_uri(), path.with_name(BASE)
        uri += UNCHANGING if is_finished else ""
        self._database = sqlite3.connect(uri, uri=True, check_same_thread=not is_finished)
        self.close = weakref.finalize(self, self._database.close)
        if has_base := base.exists():
            self._database.execute("ATTACH ? AS base", (base.resolve().as_uri() + UNCHANGING,))
        if not is_finished:
            self._database.executescript(f"PRAGMA cache_size = -{_CACHE_KB};{TABLES}")
            self._database.execute("CREATE TEMPORARY TABLE seen (number INTEGER PRIMARY KEY)")
        self._database.executescript(views_of(has_base))
        query = "SELECT content FROM main.state"
        query += " UNION ALL SELECT content FROM base.state" if has_base else ""
        row = self._database.execute(query).fetchone()  # that of the base until the first commit
        self._start(row)

    def _start(self, row: tuple[str] | None) -> None:
        """Begin with the state in a row of the table of states; None is the state of no documents."""
        self.state = state_type().validate_json(row[0]) if row else TableState()
        self._last_old = self.state.last_number
        self._pending: list[tuple[object, ...]] = []
        self._pending_ids, self._free_ids = set[str](), set[str]()
        self._pending_values: list[tuple[str, str | bool | bytes, int]] = []
        self._file: tuple[tuple[str, ...], int] = (), 0

    def commit(self, stamp: str) -> None:
        """Make all changes durable.

        Args:
            stamp: The name of the lexical commit to which the changes belong.
        """
        self.state.stamp = stamp
        self._flush()
        content = json.dumps(dataclasses.asdict(self.state))
        self._database.execute(KEEP_STATE, (1, content))
        self._database.commit()

    def look_up(self, ids: Sequence[str]) -> None:
        """Find out which of these ids no document has, all at once."""
        self._flush()
        self._free_ids, places = set(ids), ", ".join("?" * len(ids))
        for column in ("id", "given_id"):
            query = f"SELECT {column} FROM documents WHERE {column} IN ({places})"
            self._free_ids.difference_update(id for (id,) in self._database.execute(query, ids))

    def find(self, document: Document, digest: bytes) -> DocumentEntry | None:
        """Return the entry that matches `document`, or None.

        An entry with the same id and content matches, even if the file is different. Otherwise an entry with
        the same id and file matches, unless it was already seen in this run. Such an entry has outdated
        content.
        """
        if document.id in self._free_ids:
            return None
        if document.id in self._pending_ids:
            self._flush()
        query = (
            f"{_ENTRIES} WHERE {GIVEN_ID.replace('?', '?1')} AND (digest = ?2 OR"
            f" (place = ?3 AND number <= ?4 AND {_UNSEEN})) ORDER BY digest = ?2 DESC, number LIMIT 1"
        )
        return next(self._entries(query, document.id, digest, document.path, self._last_old), None)

    def matching(
        self, conditions: Mapping[str, object] = {}, where: Filter | None = None
    ) -> Iterator[DocumentEntry]:
        """Yield the documents that pass a filter and for which all conditions are true, sorted by id.

        Args:
            conditions: The conditions in SQL, such as "id = ?", each with the value that every question mark
                of it stands for; None is no condition.
        """
        self._flush()
        condition, parameters = self.condition(where)
        values, parts = list[object](parameters), [condition]
        for each, value in conditions.items():
            if value is not None:
                values.append(value)
                parts.append(each.replace("?", f"?{len(values)}"))
        return self._entries(f"{_ENTRIES} WHERE {' AND '.join(parts)} ORDER BY id", *values)

    def condition(self, where: Filter | None) -> tuple[str, Sequence[object]]:
        """Return the condition in SQL that a document is visible and passes a filter, with its parameters."""
        return ("true", []) if where is None else sql_condition(where)

    def select(self, where: Filter) -> Selection:
        """Return the documents that pass a filter."""
        condition, parameters = self.condition(where)
        query = f"SELECT number, passages FROM documents WHERE {condition}"
        cells = chain.from_iterable(self._database.execute(query, parameters))
        rows = np.fromiter(cells, dtype=np.int64).reshape(-1, 2)
        is_selected = np.zeros(self.state.last_number + 2, dtype=bool)
        is_selected[rows[:, 0]] = True
        return Selection(rows[:, 0], is_selected, int(rows[:, 1].sum()))

    def free_id(self, given_id: str) -> str:
        """Return `given_id` or, if that id is taken, `given_id` followed by "~2", "~3" and so on."""
        id, count, query = given_id, 1, "SELECT 1 FROM documents WHERE id = ?"
        while id not in self._free_ids and (
            id in self._pending_ids or self._database.execute(query, (id,)).fetchone()
        ):
            count += 1
            id = f"{given_id}~{count}"
        return id

    def add(self, document: Document, id: str, digest: bytes, scripts: Iterable[Set[str]]) -> int:
        """Add a document, which thereby counts as seen, and return its number.

        Args:
            scripts: The scripts of each of its passages.
        """
        state, scripts = self.state, list(scripts)
        is_latin = all(each == {"Latin"} for each in scripts)
        packed = "" if is_latin else json.dumps(Counter(chain.from_iterable(scripts)))
        state.last_number += 1
        number, fields, known = state.last_number, document.fields, document.known_fields
        for name in known:
            state.count_field(name, "text", 1)
        for name, value in fields.items():
            state.count_field(name, kind_of(value), 1)
        state.count(id, digest, len(scripts), packed, 1)
        given_id, title = None if document.id == id else document.id, known.pop("title", "")
        file = self._file_number((document.path, *(known.get(name, "") for name in KNOWN_FIELDS[1:])))
        self._pending.append((number, id, given_id, file, title, digest, len(scripts), packed))
        self._pending_ids |= {id, document.id}
        self._free_ids -= {id, document.id}
        self._pending_values += [(name, stored(value), number) for name, value in fields.items()]
        if len(self._pending) >= _PENDING_ROWS:
            self._flush()
        return number

    def fields(self) -> FieldKinds:
        """Return the fields that documents have, with the types of their values."""
        counts = self.state.fields
        return field_kinds((name, kind) for name in counts for kind, count in counts[name].items() if count)

    def mark_seen(self, entry: DocumentEntry) -> None:
        """Mark a document as seen in this run."""
        self._database.execute("INSERT INTO seen VALUES (?) ON CONFLICT DO NOTHING", (entry.number,))

    def is_seen(self, entry: DocumentEntry) -> bool:
        """Return whether a document was seen, or added, in this run."""
        query, number = "SELECT 1 FROM seen WHERE number = ?", entry.number
        return number > self._last_old or self._database.execute(query, (number,)).fetchone() is not None

    def not_seen(self, roots: Iterable[str], kept_paths: Set[str]) -> Iterator[DocumentEntry]:
        """Yield the documents that this run should have seen but did not.

        Their files are in or below `roots`, but not in or below `kept_paths`.
        """
        unseen = f"{_ENTRIES} WHERE number <= ?1 AND {_UNSEEN} AND"
        for root in roots:
            folder = root.rstrip("/")
            query = f"{unseen} (place = ?2 OR place > ?3 AND place < ?4)"
            for entry in list(self._entries(query, self._last_old, root, f"{folder}/", f"{folder}0")):
                if kept_paths.isdisjoint((entry.path, *map(str, Path(entry.path).parents))):
                    yield entry

    def remove(self, entry: DocumentEntry) -> None:
        """Remove a document, which makes the rows of its vectors dead."""
        self._flush()
        execute, number = self._database.execute, (entry.number,)
        for name, kind in self._remove_values(entry.number):
            self.state.count_field(name, STORAGE_CLASSES[kind], -1)
        known = execute(f"SELECT {', '.join(KNOWN_FIELDS)} FROM documents WHERE number = ?", number)
        for name, value in zip(KNOWN_FIELDS, next(known), strict=True):
            if value:
                self.state.count_field(name, "text", -1)
        self.state.count(entry.id, entry.digest, entry.passages, entry.scripts, -1)
        self.state.live -= entry.passages if entry.segment >= 0 else 0
        if not execute("DELETE FROM main.documents WHERE number = ?", number).rowcount:
            execute("INSERT INTO main.hidden VALUES (?)", number)
        execute("DELETE FROM main.vectors WHERE document = ?", number)

    def _remove_values(self, document: int) -> Iterable[tuple[str, str]]:
        """Remove the fields of a document, and return their names and the storage classes of their values."""
        execute, number = self._database.execute, (document,)
        found = execute("SELECT name, typeof(value) FROM fields WHERE document = ?", number).fetchall()
        values = "FROM main.document_values WHERE document = ?1"
        others = "SELECT 1 FROM main.document_values WHERE value_id = id AND document != ?1"
        execute(
            f"DELETE FROM main.field_values WHERE id IN (SELECT value_id {values}) AND NOT EXISTS ({others})",
            number,
        )
        execute(f"DELETE {values}", number)
        return found

    def begin_segment(self, segment: int) -> None:
        """Record that vectors are added to another segment from now on."""
        self.state.segment, self.state.end = segment, 0

    def enter_vectors(self, entry: DocumentEntry, first_row: int) -> None:
        """Record that the vectors of a document begin at a row of the segment in use, the last one so far."""
        state = self.state
        state.live += entry.passages if entry.segment < 0 else 0
        state.end = first_row + entry.passages
        values = entry.number, state.segment, first_row
        self._database.execute(_ENTER_VECTORS, values)

    def not_encoded(self) -> Iterator[DocumentEntry]:
        """Yield the documents whose passages have no vectors.

        Vectors may be added during the iteration.
        """
        self._flush()
        query = f"{_ENTRIES} WHERE number > ? AND segment < 0 AND passages > 0 ORDER BY number"
        yield from self._entries(query, self.state.encoded_up_to)
        self.state.encoded_up_to = self.state.last_number

    def encoded_in(self, segment: int) -> Iterator[DocumentEntry]:
        """Yield the documents whose vectors are in a segment.

        Their vectors may be moved to another segment during the iteration.
        """
        return self._entries(f"{_ENTRIES} WHERE segment = ? ORDER BY number", segment)

    def _file_number(self, file: tuple[str, ...]) -> int:
        """Return the number of a file, given by its place and its fields, in the table of changes."""
        if file != self._file[0]:
            values = "(place, source, path, type, date)"
            enter = f"INSERT INTO main.files {values} VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
            self._database.execute(enter, file)
            query = f"SELECT number FROM main.files WHERE {values} = (?, ?, ?, ?, ?)"
            self._file = file, self._database.execute(query, file).fetchone()[0]
        return self._file[1]

    def _flush(self) -> None:
        """Write the documents that were added last."""
        if not self._pending:
            return
        many = self._database.executemany
        many("INSERT INTO main.documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._pending)
        values = [each[:2] for each in self._pending_values]
        many("INSERT OR IGNORE INTO main.field_values (name, value) VALUES (?, ?)", values)
        find = "SELECT id, ?3 FROM main.field_values WHERE name = ?1 AND value = ?2"
        many(f"INSERT INTO main.document_values {find}", self._pending_values)
        self._pending, self._pending_ids, self._pending_values = [], set(), []

    def _entries(self, query: str, *values: object) -> Iterator[DocumentEntry]:
        for row in self._database.execute(query, values):
            yield DocumentEntry(*row)
