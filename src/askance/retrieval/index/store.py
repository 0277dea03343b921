"""The index folder: its manifest, and opening it.

    manifest.json            names the one valid generation; replaced in one step
    generation-000002/       that generation, never changed once the manifest names it:
        lexical/                 the passages, in tantivy
        vectors/                 the vectors of the passages, if there are any (see `vectors`)
        documents.sqlite         the documents, for the next build (see `ledger`)
    writer.lock              held while a build runs

A build works in a generation of its own (see `draft`). Whoever is reading, or comes after a crash, has the
whole old generation or the whole new one.
"""

import dataclasses
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from askance.core.errors import BadIndex
from askance.core.ports import Encoder
from askance.retrieval.index.lexical import Analysis, LexicalIndex, open_lexical
from askance.retrieval.index.vectors import FlatIndex
from askance.storage.durable_files import write_atomically

FORMAT = "askance-index"
SCHEMA_VERSION = 1
MANIFEST, INCOMING_MANIFEST = "manifest.json", ".manifest.json.new"
LOCK = "writer.lock"
LEXICAL, VECTORS, LEDGER = "lexical", "vectors", "documents.sqlite"
_NUM_TRIES = 3


@dataclass(frozen=True, slots=True)
class EncoderNote:
    """The encoder that made the vectors of an index.

    Attributes:
        name: its specification, where it was loaded by one.
        fingerprint: tells its vectors from those of others.
        dimensions: numbers in a vector.
    """

    name: str
    fingerprint: str
    dimensions: int

    def __str__(self) -> str:
        return f"the encoder {self.name} ({self.dimensions} dimensions, fingerprint {self.fingerprint})"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What `manifest.json` says, beside format and schema version.

    Attributes:
        generation: counts the builds that changed something; names the folder that holds the index.
        documents, passages: how many the index holds.
        content_hash: of all documents with their ids, wherever they came from and in whatever order.
        engine: the library that wrote it, with its version.
        created_at, updated_at: UTC, ISO 8601.
        encoder: what made the vectors; None where there are none.
    """

    generation: int
    analysis: Analysis
    documents: int
    passages: int
    content_hash: str
    engine: str
    created_at: str
    updated_at: str
    encoder: EncoderNote | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """An index opened for reading. It stays valid, and the same, while others build upon it.

    Attributes:
        vectors: None unless they were asked for.
    """

    folder: Path
    manifest: Manifest
    lexical: LexicalIndex
    vectors: FlatIndex | None = None


def open_store(folder: Path, *, analysis: Analysis | None = None, encoder: Encoder | None = None) -> Store:
    """Open the index in `folder`.

    Args:
        encoder: open the vectors, too, which must be this one's.

    Raises:
        BadIndex: it is missing, empty, damaged, newer than this version, built with another analysis than
            the one asked for, or without vectors of the encoder.
    """
    for _ in range(_NUM_TRIES):
        manifest = read_manifest(folder)
        if analysis not in (None, manifest.analysis):
            raise built_otherwise(folder, manifest.analysis, analysis)
        if manifest.passages == 0:
            raise BadIndex(f"the index {folder} is empty: add documents to it with `askance index`.")
        made_by = None if encoder is None else encoder_of(folder, manifest)
        if encoder is not None and made_by is not None and made_by.fingerprint != encoder.fingerprint:
            wanted = f"the encoder {encoder.name} (fingerprint {encoder.fingerprint})"
            raise built_otherwise(folder, made_by, wanted)
        path = generation_folder(folder, manifest.generation)
        try:
            lexical, vectors = open_lexical(path / LEXICAL), None
            if made_by is not None:
                vectors = FlatIndex(path / VECTORS, path / LEDGER, made_by.dimensions)
            return Store(folder, manifest, lexical, vectors)
        except (ValueError, OSError, sqlite3.Error) as error:
            problem: Exception = error
        if read_manifest(folder).generation == manifest.generation:
            break
        # A build has replaced, and removed, this very generation in the meantime.
    raise BadIndex(
        f"the index {folder}, written by {manifest.engine}, can't be opened ({problem}): "
        f"{_remedy(path, problem)}."
    ) from problem


def generation_folder(folder: Path, generation: int) -> Path:
    """Where that generation of the index in `folder` lies."""
    return folder / f"generation-{generation:06d}"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the index in `folder`.

    Raises:
        BadIndex: there is no such folder, it holds no index, or the index is newer than this version.
    """
    try:
        if not folder.is_dir():
            problem = "is a file" if folder.exists() else "does not exist"
            raise BadIndex(f"the index {folder} {problem}: name the folder that `askance index` wrote.")
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        format, version = content.pop("format"), int(content.pop("schema_version"))
        if format != FORMAT:
            raise BadIndex(f"{folder} holds no askance index, but one of format {format!r}.")
        if version > SCHEMA_VERSION:
            raise BadIndex(
                f"the index {folder} has schema version {version}, this askance reads up to "
                f"{SCHEMA_VERSION}: upgrade askance, or build the index again in another folder."
            )
        # Indexes from before there were vectors say nothing of an encoder.
        analysis, encoder = Analysis(**content.pop("analysis")), content.pop("encoder", None)
        return Manifest(**content, analysis=analysis, encoder=encoder and EncoderNote(**encoder))
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
        raise BadIndex(
            f"the manifest {folder / MANIFEST} can't be read ({type(error).__name__}: {error}): "
            "delete the folder and build the index again."
        ) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step: a reader finds the old or the new one, never a part."""
    content = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **dataclasses.asdict(manifest)}
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(folder / MANIFEST, text, temporary=folder / INCOMING_MANIFEST)


def built_otherwise(folder: Path, built: object, wanted: object) -> BadIndex:
    """The error of an index that was built with another analysis or encoder than the one that is wanted."""
    return BadIndex(
        f"the index {folder} was built with {built}, not with {wanted}: name the former, or build another "
        "index, in another folder, with the latter."
    )


def encoder_of(folder: Path, manifest: Manifest) -> EncoderNote:
    """What made the vectors of the index. Raises BadIndex where there are none."""
    if manifest.encoder is None:
        raise BadIndex(
            f"the index {folder} has no vectors: make them with `askance index DOCS --out {folder} --encoder "
            "bundled`, or search with bm25."
        )
    return manifest.encoder


def _remedy(path: Path, problem: Exception) -> str:
    """What helps; only what is damaged is worth deleting."""
    try:
        # The libraries that read an index do not tell what is forbidden from what is damaged.
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
