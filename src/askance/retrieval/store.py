"""The index folder, and opening it.

    manifest.json            names the one valid generation; replaced in one step
    generation-000002/       that generation, never changed once the manifest names it:
        lexical/                 the passages, in tantivy
        documents.sqlite         the documents, for the next build (see `ledger`)
    writer.lock              held while a build runs

A build works in a generation of its own (see `draft`). Whoever is reading, or comes after a crash, has the
whole old generation or the whole new one.
"""

from dataclasses import dataclass
from pathlib import Path

from askance.core.errors import BadIndex
from askance.retrieval.analysis import Analysis
from askance.retrieval.lexical import LexicalIndex
from askance.retrieval.manifest import Manifest, check_analysis, read_manifest

LOCK = "writer.lock"
LEXICAL = "lexical"
LEDGER = "documents.sqlite"
_NUM_TRIES = 3


@dataclass(frozen=True, slots=True)
class Store:
    """An index opened for reading. It stays valid, and the same, while others build upon it."""

    folder: Path
    manifest: Manifest
    lexical: LexicalIndex


def open_store(folder: Path, *, analysis: Analysis | None = None) -> Store:
    """Open the index in `folder`.

    Raises:
        BadIndex: it is missing, empty, damaged, newer than this version, or built with another analysis than
            the one asked for.
    """
    for _ in range(_NUM_TRIES):
        manifest = read_manifest(folder)
        _check(folder, manifest, analysis)
        try:
            return Store(
                folder, manifest, LexicalIndex(generation_folder(folder, manifest.generation) / LEXICAL)
            )
        except ValueError as error:
            problem = error
        if read_manifest(folder).generation == manifest.generation:
            break
        # A build has replaced, and removed, this very generation in the meantime.
    raise BadIndex(
        f"the index {folder}, written by {manifest.engine}, can't be opened ({problem}): "
        "delete the folder and build the index again."
    ) from problem


def generation_folder(folder: Path, generation: int) -> Path:
    """Where that generation of the index in `folder` lies."""
    return folder / f"generation-{generation:06d}"


def _check(folder: Path, manifest: Manifest, analysis: Analysis | None) -> None:
    if analysis is not None:
        check_analysis(folder, manifest, analysis)
    if manifest.passages == 0:
        raise BadIndex(f"the index {folder} is empty: add documents to it with `askance index`.")
