"""The two SQLite files of a document table: their tables, and how an update begins them.

    base.sqlite         the documents of an earlier generation; never modified, and linked to the next ones
    documents.sqlite    what changed since: new documents, and the numbers of those that the base has too much

Both have the same tables, and temporary views join them. So an update copies only the second file, which is
small. If it has grown, the next update begins with a new base, into which both are merged. All counts are in
the one row of `state`, and change with each document. The cost of an update therefore depends on what it
changes. A single file in WAL mode would also save the copy. But there a reader needs to write, which it can't
on a read-only disk, and an old generation would change under its readers.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from askance.retrieval.index.index_folder import BASE, link_or_copy

_MERGED_BYTES, _MERGED_PART = 1 << 20, 64
"""Changes of more bytes than these and one part in so many of the base are merged into the base."""
UNCHANGING = "?mode=ro&immutable=1"
TABLES = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS files (
    number INTEGER PRIMARY KEY, place TEXT NOT NULL,
    source TEXT NOT NULL, path TEXT NOT NULL, type TEXT NOT NULL, date TEXT NOT NULL,   -- empty if unknown
    UNIQUE (place, source, path, type, date)
);
CREATE TABLE IF NOT EXISTS documents (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,    -- unique in the index
    given_id TEXT,              -- as the document has it, if that is another
    file INTEGER NOT NULL,
    title TEXT NOT NULL,        -- for filters; empty if there is none
    digest BLOB NOT NULL, passages INTEGER NOT NULL,
    scripts TEXT NOT NULL       -- the numbers of passages with letters of each; empty if all are Latin
);
CREATE INDEX IF NOT EXISTS by_given_id ON documents (given_id) WHERE given_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_file ON documents (file);
CREATE TABLE IF NOT EXISTS vectors (document INTEGER PRIMARY KEY, segment INTEGER, first_row INTEGER);
CREATE TABLE IF NOT EXISTS field_values (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, value NOT NULL,     -- see `filters.stored`
    UNIQUE (name, value)
);
CREATE TABLE IF NOT EXISTS document_values (
    value_id INTEGER NOT NULL, document INTEGER NOT NULL,   -- its number
    PRIMARY KEY (value_id, document)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS values_of_document ON document_values (document);
CREATE TABLE IF NOT EXISTS hidden (number INTEGER PRIMARY KEY);     -- of a document that only the base has
CREATE TABLE IF NOT EXISTS state (number INTEGER PRIMARY KEY, content TEXT NOT NULL);
COMMIT;
"""
"""One transaction that creates missing tables, so that a file has all of them or none."""
_MERGE = """
BEGIN IMMEDIATE;
DELETE FROM document_values WHERE document IN (SELECT number FROM changes.hidden);
DELETE FROM vectors WHERE document IN (SELECT number FROM changes.hidden);
DELETE FROM documents WHERE number IN (SELECT number FROM changes.hidden);
INSERT OR REPLACE INTO vectors SELECT * FROM changes.vectors;
INSERT OR IGNORE INTO files (place, source, path, type, date)
    SELECT place, source, path, type, date FROM changes.files;
INSERT INTO documents
    SELECT old.number, id, given_id, new.number, title, digest, passages, scripts
    FROM changes.documents AS old JOIN changes.files ON files.number = file
    JOIN main.files AS new USING (place, source, path, type, date);
INSERT OR IGNORE INTO field_values (name, value) SELECT name, value FROM changes.field_values;
INSERT INTO document_values
    SELECT new.id, document FROM changes.document_values JOIN changes.field_values AS old ON old.id = value_id
    JOIN main.field_values AS new USING (name, value);
DELETE FROM files WHERE number NOT IN (SELECT file FROM documents);
DELETE FROM field_values WHERE id NOT IN (SELECT value_id FROM document_values);
INSERT OR REPLACE INTO state SELECT * FROM changes.state;
COMMIT;
"""


def continue_table(old: Path, new: Path) -> None:
    """Begin the table of a generation, whose file of changes is to be `new`, with the content of another.

    Raises:
        OSError, sqlite3.Error: The files can't be written.
    """
    old_base, base = old.with_name(BASE), new.with_name(BASE)
    if not old_base.exists():
        link_or_copy(old, base)
    elif old.stat().st_size <= _MERGED_BYTES + old_base.stat().st_size // _MERGED_PART:
        link_or_copy(old_base, base)
        shutil.copyfile(old, new)
    else:
        shutil.copyfile(old_base, base)
        with closing(sqlite3.connect(base.resolve().as_uri(), uri=True)) as database:
            database.execute("ATTACH ? AS changes", (old.resolve().as_uri() + UNCHANGING,))
            database.executescript(_MERGE)
