"""The index folder: its layout, its manifest, and how to open it.

    manifest.json            names the one valid generation; replaced in one step
    generation-000002/       that generation, never changed once the manifest names it:
        lexical/                 the passages, in tantivy
        vectors/                 the vectors of the passages, if there are any (see `vectors`)
        documents.sqlite         the documents, for the next build (see `document_table`)
    writer.lock              held while a build runs

A build writes its own generation (see `build_transaction`). A reader sees either the whole old generation or
the whole new one, even after a crash.
"""

import asyncio
import dataclasses
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from askance.core.errors import BadIndex
from askance.core.filters import FieldKinds, Filter
from askance.core.ports import Encoder
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.document_table import DocumentTable
from askance.retrieval.index.field_columns import FieldColumns, Selection
from askance.retrieval.index.lexical import LexicalIndex, open_lexical
from askance.retrieval.index.passages import Chunking
from askance.retrieval.index.vectors import FlatIndex
from askance.storage.durable_files import write_atomically

FORMAT = "askance-index"
SCHEMA_VERSION = 2
MANIFEST, INCOMING_MANIFEST = "manifest.json", ".manifest.json.new"
LOCK = "writer.lock"
LEXICAL, VECTORS, DOCUMENTS = "lexical", "vectors", "documents.sqlite"
_NUM_TRIES = 3


@dataclass(frozen=True, slots=True)
class EncoderRecord:
    """The encoder that made the vectors of an index.

    Attributes:
        name: The specification from which the encoder was loaded, if there was one.
        fingerprint: A string that distinguishes the encoder's vectors from those of other encoders.
    """

    name: str
    fingerprint: str
    dimensions: int

    def __str__(self) -> str:
        return f"the encoder {self.name} ({self.dimensions} dimensions, fingerprint {self.fingerprint})"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `manifest.json`, except the format and the schema version.

    Attributes:
        generation: The number of builds so far that changed the index. The generation folder is named after
            this number.
        content_hash: A hash of all documents with their ids, independent of their files and order.
        engine: The library that wrote the index, with its version.
        created_at, updated_at: The times of the first build and of the latest change, in UTC (ISO 8601).
        encoder: The encoder that made the vectors; None if the index has no vectors.
        scripts: The number of passages with letters of each script, by the script's name.
        fields: The fields of the documents with the types of their values.
    """

    generation: int
    analysis: Analysis
    documents: int
    passages: int
    content_hash: str
    engine: str
    created_at: str
    updated_at: str
    encoder: EncoderRecord | None = None
    chunking: Chunking = Chunking()
    scripts: Mapping[str, int] = field(default_factory=dict)
    fields: FieldKinds = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexReader:
    """An index opened for reading. It stays valid and unchanged while a build writes a new generation.

    Attributes:
        vectors: The vectors; None unless an encoder was given.
    """

    folder: Path
    manifest: Manifest
    lexical: LexicalIndex
    columns: FieldColumns
    vectors: FlatIndex | None = None

    async def selection(self, where: Filter) -> Selection:
        """Return the documents that pass a filter.

        Raises:
            RetrieverFailure: The document table can't be read.
        """
        kept = self.columns.kept(where)
        return await asyncio.to_thread(self.columns.select, where) if kept is None else kept


def open_index_reader(folder: Path, *, encoder: Encoder | None = None) -> IndexReader:
    """Open the index in `folder`.

    Args:
        encoder: The encoder that must have made the vectors. With an encoder, the vectors are opened as well.

    Raises:
        BadIndex: The index is missing, empty, damaged or newer than this version, or has no vectors of the
            encoder.
    """
    for _ in range(_NUM_TRIES):
        manifest = read_manifest(folder)
        if manifest.passages == 0:
            raise BadIndex(f"the index {folder} is empty: add documents to it with `askance index`.")
        made_by = None if encoder is None else encoder_record(folder, manifest)
        if encoder is not None and made_by is not None and made_by.fingerprint != encoder.fingerprint:
            wanted = f"the encoder {encoder.name} (fingerprint {encoder.fingerprint})"
            raise mismatch_error(folder, made_by, wanted)
        path = generation_folder(folder, manifest.generation)
        try:
            lexical, vectors = open_lexical(path / LEXICAL), None
            columns = FieldColumns(DocumentTable(path / DOCUMENTS, is_finished=True))
            if made_by is not None:
                vectors = FlatIndex(path / VECTORS, path / DOCUMENTS, made_by.dimensions)
            return IndexReader(folder, manifest, lexical, columns, vectors)
        except (ValueError, OSError, sqlite3.Error) as error:
            problem: Exception = error
        if read_manifest(folder).generation == manifest.generation:
            break
        # A build has replaced and removed this generation in the meantime.
    raise BadIndex(
        f"the index {folder}, written by {manifest.engine}, can't be opened ({problem}): "
        f"{_remedy(path, problem)}."
    ) from problem


def generation_folder(folder: Path, generation: int) -> Path:
    """Return the folder of a generation of the index in `folder`."""
    return folder / f"generation-{generation:06d}"


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the index in `folder`.

    Raises:
        BadIndex: There is no such folder, it holds no index, or the index is newer than this version.
    """
    try:
        if not folder.is_dir():
            problem = "is a file" if folder.exists() else "does not exist"
            raise BadIndex(f"the index {folder} {problem}: name the folder that `askance index` wrote.")
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        format, version = content.pop("format"), int(content.pop("schema_version"))
        if format != FORMAT:
            raise BadIndex(f"{folder} holds no askance index, but one of format {format!r}.")
        if version != SCHEMA_VERSION:
            which, upgrade = (
                ("a later", "upgrade askance, or ") if version > SCHEMA_VERSION else ("an earlier", "")
            )
            raise BadIndex(
                f"the index {folder} was built by {which} version of askance (schema version {version}; "
                f"this version reads {SCHEMA_VERSION}): {upgrade}delete the folder and build the index again "
                f"with `askance index DOCS --out {folder}`."
            )
        return TypeAdapter(Manifest).validate_python(content)
    except FileNotFoundError as error:
        raise BadIndex(
            f"{folder} holds no index (no {MANIFEST}): name the folder that `askance index` wrote, or make "
            f"one of these documents with `askance index {folder} --out {folder}-index`."
        ) from error
    except OSError as error:
        raise BadIndex(
            f"the index {folder} can't be read ({error.strerror}): have its owner let you read it, or name "
            "another."
        ) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        flaw = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise BadIndex(
            f"the manifest {folder / MANIFEST} can't be read ({type(error).__name__}: {flaw}): "
            "delete the folder and build the index again."
        ) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically: a reader finds the whole old one or the whole new one."""
    content = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **dataclasses.asdict(manifest)}
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(folder / MANIFEST, text, temporary=folder / INCOMING_MANIFEST)


def mismatch_error(folder: Path, built: object, wanted: object) -> BadIndex:
    """Return the error for an index that was not built as wanted: its analysis, chunking or encoder."""
    return BadIndex(
        f"the index {folder} was built with {built}, not with {wanted}: name the former, or build another "
        "index, in another folder, with the latter."
    )


def encoder_record(folder: Path, manifest: Manifest) -> EncoderRecord:
    """Return the encoder that made the vectors of the index.

    Raises:
        BadIndex: The index has no vectors.
    """
    if manifest.encoder is None:
        raise BadIndex(
            f"the index {folder} has no vectors: make them with `askance index DOCS --out {folder} --encoder "
            "bundled`, or search with bm25."
        )
    return manifest.encoder


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
