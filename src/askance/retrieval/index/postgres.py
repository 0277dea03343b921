"""Collections in PostgreSQL: their document table, reader and writer (see `postgres_server`)."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from askance.core.errors import BadIndex
from askance.core.filters import Filter
from askance.core.ports import Encoder
from askance.core.types import Hit, Passage
from askance.retrieval import ann
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.build_report import BuildProgress
from askance.retrieval.index.collection import CollectionReader
from askance.retrieval.index.document_table import KEEP_STATE, DocumentEntry, DocumentTable
from askance.retrieval.index.index_folder import (
    EncoderRecord,
    Manifest,
    check_base,
    manifest_type,
    record_of,
)
from askance.retrieval.index.lexical import Bm25Parameters, LexicalWriter, packed, unpacked
from askance.retrieval.index.passages import Chunking
from askance.retrieval.index.postgres_server import (
    LOCK_SECONDS,
    MANIFEST,
    STATE,
    Server,
    Transaction,
    word,
    words,
)
from askance.retrieval.index.vectors import VectorWriter
from askance.retrieval.index.writer import IndexWriter, describe_encoder
from askance.retrieval.ranking import best_hits

SCHEMA_VERSION = 1
_PENDING_ROWS = 1_000
_MOST_HNSW_DIMENSIONS = 2_000


class PostgresTable(DocumentTable):
    """The documents of a collection.

    Args:
        database: Executes the statements.
        last_number: The greatest number of a document that is visible. Numbers only rise, so a reader sees no
            document that was added after it was opened.
    """

    def __init__(self, database: Any, state: str | None, last_number: int | None = None) -> None:
        self._database, self._last_visible = database, last_number
        self._start(None if state is None else (state,))
        self.visible = "true" if last_number is None else f"number <= {last_number}"

    def condition(self, where: Filter | None) -> tuple[str, Sequence[object]]:
        condition, parameters = super().condition(where)
        return f"{self.visible} AND {condition}", [_encoded(each) for each in parameters]

    def _remove_values(self, document: int) -> Iterable[tuple[str, str]]:
        query = "DELETE FROM fields WHERE document = ? RETURNING name, typeof(value)"
        return [(name[1:].decode(), kind) for name, kind in self._database.execute(query, (document,))]

    def _flush(self) -> None:
        if self._pending:
            many = self._database.executemany
            many("INSERT INTO main.documents VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._pending)
            values = [
                (number, _encoded(name), _encoded(value)) for name, value, number in self._pending_values
            ]
            many("INSERT INTO fields VALUES (?, ?, ?)", values)
            self._pending, self._pending_ids, self._pending_values = [], set(), []


class PostgresReader(CollectionReader):
    """The documents of a collection that were there when it was opened, and were not removed since."""

    def __init__(self, server: Server, manifest: Manifest, made_by: EncoderRecord | None) -> None:
        self.place, self.manifest = server.url, manifest
        self.dimensions = made_by.dimensions if made_by else 0
        self._server, self._lock = server, nullcontext()
        state = server.content(STATE)
        self._table = PostgresTable(server, state, json.loads(state or "{}").get("last_number", 0))

    @property
    def _documents(self) -> DocumentTable:
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
        if parameters != Bm25Parameters():
            raise BadIndex(f"the index {self.place} is searched with k1=1.2 and b=0.75: leave out k1 and b.")
        score = f"terms <@> to_bm25query(?, '{self._server.index}')"
        find = self._finder(
            f"SELECT number, at, {score} AS score FROM passages", " ".join(map(word, terms)), where
        )
        return await self._best(lambda limit: (hit for hit in find(limit) if hit[0] > 0), k, exclude)

    async def search_vector(
        self,
        vector: NDArray[np.float32],
        k: int,
        *,
        exclude: frozenset[str] = frozenset(),
        where: Filter | None = None,
    ) -> tuple[Hit, ...]:
        score = "SELECT number, at, embedding <#> ?::vector AS score FROM embeddings"
        return await self._best(self._finder(score, _shown(vector), where), k, exclude)

    def passages_of(self, document_id: str) -> dict[str, Passage]:
        return _passages_of(self._server, document_id, self._table.visible)

    def _finder(
        self, select: str, query: str, where: Filter | None
    ) -> Callable[[int], Iterator[tuple[float, bytes]]]:
        """Return what finds the passages with the least scores of a query."""
        condition, parameters = self._table.condition(where)
        best = f"{select.replace('?', f'?{len(parameters) + 1}')} WHERE {condition} ORDER BY score LIMIT"

        def find(limit: int) -> Iterator[tuple[float, bytes]]:
            found = f"SELECT -score, packed FROM ({best} {limit}) AS best JOIN passages USING (number, at)"
            yield from self._server.execute(f"{found} ORDER BY score", (*parameters, query))

        return find

    async def _best(
        self, find: Callable[[int], Iterable[tuple[float, bytes]]], k: int, exclude: frozenset[str]
    ) -> tuple[Hit, ...]:
        steps = 10**9  # a server is waited for in a thread
        return await best_hits(find, unpacked, k, exclude, self.manifest.passages, steps)


class _Passages(LexicalWriter):
    """The writer of the table of passages."""

    def __init__(self, database: Transaction, analysis: Analysis) -> None:
        self._database, self._analysis = database, analysis
        self._rows = list[tuple[object, ...]]()

    def add(self, document_id: str, passages: Iterable[Passage], number: int = 0) -> None:
        for at, passage in enumerate(passages, start=1):
            terms = words(self._analysis.terms(passage.titled_text))
            self._rows.append((number, at, packed(passage), terms))
        if len(self._rows) >= _PENDING_ROWS:
            self.commit()

    def remove(self, document_id: str) -> None:
        self.commit()
        condition = "number IN (SELECT number FROM documents WHERE id = ?)"
        self._database.execute(f"DELETE FROM passages WHERE {condition}", (document_id,))

    def commit(self) -> None:
        self._database.executemany("INSERT INTO passages VALUES (?, ?, ?, ?)", self._rows)
        self._rows.clear()

    def committed(self) -> Any:
        self.commit()
        return self

    def passages_of(self, document_id: str) -> dict[str, Passage]:
        return _passages_of(self._database, document_id, "true")


class _Embeddings(VectorWriter):
    """The writer of the table of vectors."""

    is_to_cluster = False

    def __init__(self, database: Transaction, dimensions: int, documents: DocumentTable) -> None:
        self._database, self.dimensions, self._documents = database, dimensions, documents
        self._rows = list[str]()
        database.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        database.execute(
            f"CREATE TABLE IF NOT EXISTS embeddings (number bigint, at bigint, embedding vector({dimensions})"
            ", PRIMARY KEY (number, at), FOREIGN KEY (number, at) REFERENCES passages ON DELETE CASCADE)"
        )

    def add(self, vectors: NDArray[np.float32], document: DocumentEntry | None) -> None:
        self._rows += map(_shown, vectors)
        if document is not None:
            rows = [(document.number, at, row) for at, row in enumerate(self._rows, start=1)]
            self._database.executemany("INSERT INTO embeddings VALUES (?, ?, ?::vector)", rows)
            self._documents.enter_vectors(document, 0)
            self._rows.clear()

    def compact(self) -> None: ...

    def cluster(self) -> None:
        if self._documents.state.live > ann.EXACT_ROWS and self.dimensions <= _MOST_HNSW_DIMENSIONS:
            columns = "(embedding vector_ip_ops)"
            self._database.execute(f"CREATE INDEX IF NOT EXISTS near ON embeddings USING hnsw {columns}")

    def remove_unused(self) -> None: ...


class PostgresWriter(IndexWriter):
    """Changes to a collection, in one transaction."""

    def __init__(self, server: Server, database: Transaction, *given: Any) -> None:
        super().__init__(Path(), *given)
        self._server, self._database = server, database
        query = "SELECT extversion FROM pg_extension WHERE extname = 'pg_textsearch'"
        self.engine = f"pg_textsearch {database.execute(query).fetchone()[0]}"

    def open(self) -> None:
        database = self._database
        self._is_resumed = False
        database.execute("CREATE TEMPORARY TABLE seen (number bigint PRIMARY KEY) ON COMMIT DROP")
        self.documents = PostgresTable(database, self._server.content(STATE, database))
        self.lexical = _Passages(database, self._analysis)
        self.vectors = None
        if self._made_by is not None:
            self.vectors = _Embeddings(database, self._made_by.dimensions, self.documents)

    def checkpoint(self) -> None:
        self.lexical.commit()
        self._num_unsaved = 0

    def close(self) -> None: ...

    def _publish(self, manifest: Manifest) -> None:
        if self._base is None:
            options = "text_config = 'simple', k1 = 1.2, b = 0.75"
            self._database.execute(f"CREATE INDEX lexical ON passages USING bm25 (terms) WITH ({options})")
        content = {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(manifest)}
        self._database.execute(KEEP_STATE, (MANIFEST, json.dumps(content)))
        self.documents.commit("")


class PostgresCollection:
    """A `Collection` in a schema of a database (see `postgres_server`).

    Args:
        url: A URL of libpq with the name of the collection, as ``postgresql://host/db?collection=NAME``.
    """

    def __init__(self, url: str) -> None:
        self.place, self._server = url, Server(url)

    def state(self) -> str | None:
        with self._server.errors("read"):
            return self._server.content(MANIFEST)

    def manifest(self) -> Manifest:
        content = self.state()
        if content is None:
            raise BadIndex(
                f"the database has no index {self.place}: make it with `askance index DOCS --out URL`."
            )
        return self._parsed(content)

    def reader(self, encoder: Encoder | None = None) -> PostgresReader:
        manifest = self.manifest()
        made_by = None if encoder is None else record_of(encoder, self.place, manifest)
        with self._server.errors("read"):
            return PostgresReader(self._server, manifest, made_by)

    @contextmanager
    def writer(
        self,
        *,
        analysis: Analysis | None = None,
        encoder: Encoder | None = None,
        chunking: Chunking | None = None,
        progress: Callable[[BuildProgress], None] | None = None,
    ) -> Iterator[IndexWriter]:
        analysis = analysis or self.manifest().analysis
        made_by = None if encoder is None else describe_encoder(encoder)
        server = self._server
        with server.errors("written"), closing(server.connect()) as connection:
            connection.autocommit = False
            server.lock(connection, LOCK_SECONDS)
            database = Transaction(connection)
            content = server.content(MANIFEST, database)
            base = None if content is None else self._parsed(content)
            if base is None:
                server.create_tables(connection)
            else:
                check_base(self.place, base, analysis, made_by, chunking)
            writer = PostgresWriter(server, database, base, analysis, chunking, encoder, made_by, progress)
            writer.open()
            yield writer

    def _parsed(self, content: str) -> Manifest:
        try:
            manifest = dict(from_json(content))
            version = manifest.pop("schema_version", None)
            if version == SCHEMA_VERSION:
                return manifest_type().validate_python(manifest)
        except (ValueError, TypeError) as error:
            raise BadIndex(f"the manifest of {self.place} can't be read ({error}): index again.") from error
        raise BadIndex(
            f"the index {self.place} has the schema version {version!r}, and this askance reads "
            f"{SCHEMA_VERSION}: use the askance that made it, or index into another collection."
        )


def _encoded(value: object) -> bytes:
    """Return the name or the value of a field as the tables have it: its kind, and what compares as it."""
    if isinstance(value, str):
        return b"t" + value.encode("utf-8", "surrogatepass")
    return b"i" + bytes([value]) if isinstance(value, bool) else b"b" + cast(bytes, value)


def _shown(vector: NDArray[np.float32]) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"


def _passages_of(database: Any, document_id: str, visible: str) -> dict[str, Passage]:
    condition = f"number IN (SELECT number FROM documents WHERE id = ? AND {visible})"
    rows = database.execute(f"SELECT packed FROM passages WHERE {condition}", (document_id,))
    passages = (unpacked(row[0]) for row in rows)
    return {passage.id: passage for passage in passages}
