"""The index folder, and opening it.

    manifest.json            names the one valid generation; replaced in one step
    generation-000002/       that generation, never changed once the manifest names it:
        lexical/                 the passages, in tantivy
        vectors/                 the vectors of the passages, if there are any (see `vectors`)
        documents.sqlite         the documents, for the next build (see `ledger`)
    writer.lock              held while a build runs

A build works in a generation of its own (see `draft`). Whoever is reading, or comes after a crash, has the
whole old generation or the whole new one.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from askance.core.errors import BadIndex
from askance.core.ports import Encoder
from askance.retrieval.lexical import Analysis, LexicalIndex
from askance.retrieval.manifest import (
    Manifest,
    check_analysis,
    check_encoder,
    encoder_of,
    read_manifest,
)
from askance.retrieval.vectors import VECTORS

if TYPE_CHECKING:
    from askance.retrieval.flat import FlatIndex

LOCK = "writer.lock"
LEXICAL = "lexical"
LEDGER = "documents.sqlite"
_NUM_TRIES = 3


@dataclass(frozen=True, slots=True)
class Store:
    """An index opened for reading. It stays valid, and the same, while others build upon it.

    Attributes:
        vectors: None unless they were asked for.
    """

    folder: Path
    manifest: Manifest
    lexical: LexicalIndex
    vectors: "FlatIndex | None" = None


def open_store(folder: Path, *, analysis: Analysis | None = None, encoder: Encoder | None = None) -> Store:
    """Open the index in `folder`.

    Args:
        encoder: open the vectors, too, which must be this one's.

    Raises:
        BadIndex: it is missing, empty, damaged, newer than this version, built with another analysis than
            the one asked for, or without vectors of the encoder.
        MissingExtra: faiss is not installed, which vectors are searched with.
    """
    for _ in range(_NUM_TRIES):
        manifest = read_manifest(folder)
        _check(folder, manifest, analysis)
        if encoder is not None:
            check_encoder(folder, manifest, encoder.name, encoder.fingerprint)
        path = generation_folder(folder, manifest.generation)
        try:
            lexical = LexicalIndex(path / LEXICAL)
            vectors = None if encoder is None else _open_vectors(folder, manifest)
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


def _open_vectors(folder: Path, manifest: Manifest) -> "FlatIndex":
    from askance.retrieval.flat import FlatIndex

    path = generation_folder(folder, manifest.generation)
    return FlatIndex(path / VECTORS, path / LEDGER, encoder_of(folder, manifest).dimensions)


def generation_folder(folder: Path, generation: int) -> Path:
    """Where that generation of the index in `folder` lies."""
    return folder / f"generation-{generation:06d}"


def _check(folder: Path, manifest: Manifest, analysis: Analysis | None) -> None:
    if analysis is not None:
        check_analysis(folder, manifest, analysis)
    if manifest.passages == 0:
        raise BadIndex(f"the index {folder} is empty: add documents to it with `askance index`.")
