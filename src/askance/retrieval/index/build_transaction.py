"""The transaction that writes one generation of an index, under the lock of its folder.

A transaction starts with hard links to the files of the previous generation, which are never modified in
place. Only the document table is copied. The files of the transaction become the index when the manifest
names them. Until then, only a later build reads these files, to resume from the last checkpoint.
"""

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from askance.core.errors import BadIndex, IndexBusy
from askance.core.filters import FieldKinds, kinds_in
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index import index_folder
from askance.retrieval.index.document_table import DamagedIndex, DocumentTable
from askance.retrieval.index.index_folder import EncoderRecord, Manifest, generation_folder
from askance.retrieval.index.lexical import ENGINE, LexicalWriter, read_opstamp
from askance.retrieval.index.passages import Chunking
from askance.retrieval.index.vectors import VectorWriter
from askance.storage.durable_files import locked_folder, sync

_GENERATION = re.compile(r"generation-\d{6,}")


class BuildTransaction:
    """A transaction that writes one generation, with checkpoints.

    Attributes:
        vectors: The writer of the vectors; None without an encoder.
        base: The manifest of the previous generation, if there is one.
        chunking: How documents are split into passages: as in the previous generation, if there is one.
        is_resumed: True if the transaction continues from a checkpoint of an interrupted build.
    """

    def __init__(
        self,
        folder: Path,
        base: Manifest | None,
        analysis: Analysis,
        encoder: EncoderRecord | None,
        chunking: Chunking | None,
    ) -> None:
        self.base = base
        self.chunking = base.chunking if base else chunking or Chunking()
        self._generation = base.generation + 1 if base else 1
        self._folder, self._analysis, self._encoder = folder, analysis, encoder
        self._path = generation_folder(folder, self._generation)
        self.is_resumed = self._has_checkpoint = self._is_resumable()
        self._open_files = ExitStack()

    def open(self) -> None:
        """Resume from the last checkpoint, or start with the content of the previous generation."""
        if not self.is_resumed:
            _start_generation(
                self._path, generation_folder(self._folder, self.base.generation) if self.base else None
            )
        self.documents = DocumentTable(self._path / index_folder.DOCUMENTS)
        self._open_files.callback(self.documents.close)
        self.lexical = LexicalWriter(self._path / index_folder.LEXICAL, self._analysis)
        self._open_files.callback(self.lexical.finish)
        self.vectors: VectorWriter | None = None
        if self._encoder is not None:
            self.vectors = VectorWriter(
                self._path / index_folder.VECTORS, self._encoder.dimensions, self.documents
            )
            self._open_files.callback(self.vectors.close)

    def checkpoint(self) -> None:
        """Make everything written up to now durable, so that a later build can resume from here."""
        # After a kill between these commits, the stamp does not match the index, so no build resumes from it.
        self.lexical.commit()
        if self.vectors is not None:
            self.vectors.commit()
        self.documents.commit(self._stamp())
        self._has_checkpoint = True

    def publish(self) -> Manifest:
        """Make this generation the index, and remove the previous generation.

        Readers that have the previous generation open can still read it.
        """
        if self.vectors is not None:
            self.vectors.compact()
        fields = kinds_in(self.documents.used_values())
        self.checkpoint()
        if self.vectors is not None:
            self.vectors.remove_unused()
        manifest = self._manifest(fields)
        self._open_files.close()
        sync(self._path)
        sync(self._folder)
        index_folder.write_manifest(self._folder, manifest)
        _remove_other_generations(self._folder, self._generation)
        return manifest

    def close(self) -> None:
        """End the transaction.

        Changes since the last checkpoint are discarded. Without a checkpoint, all changes are discarded.
        """
        self._open_files.close()
        if not self._has_checkpoint:
            _remove_generation(self._path)

    def _manifest(self, fields: FieldKinds) -> Manifest:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        created_at = self.base.created_at if self.base else now
        counts = self.documents.summary()
        return Manifest(
            self._generation,
            self._analysis,
            *counts,
            ENGINE,
            created_at,
            now,
            self._encoder,
            self.chunking,
            self.lexical.committed().scripts(),
            fields,
        )

    def _stamp(self) -> str:
        opstamp = read_opstamp(self._path / index_folder.LEXICAL)
        encoder = "" if self._encoder is None else f" {self._encoder.fingerprint}"
        return (
            f"{index_folder.SCHEMA_VERSION} {self._generation} {opstamp} {ENGINE} {self._analysis} "
            f"{self.chunking}{encoder}"
        )

    def _is_resumable(self) -> bool:
        if not (self._path / index_folder.DOCUMENTS).exists():
            return False
        try:
            with closing(DocumentTable(self._path / index_folder.DOCUMENTS)) as documents:
                return documents.stamp == self._stamp()
        except (sqlite3.DatabaseError, OSError, ValueError, LookupError, TypeError):
            # A killed build left the table unreadable, so the generation is replaced.
            return False


@contextmanager
def open_transaction(
    folder: Path,
    analysis: Analysis,
    encoder: EncoderRecord | None = None,
    chunking: Chunking | None = None,
) -> Iterator[BuildTransaction]:
    """Open a transaction on the index in `folder`, which need not exist.

    Args:
        encoder: The encoder that makes the vectors. An index without vectors accepts any encoder.
        chunking: How documents are split; None takes the chunking of the index, or the default.

    Raises:
        BadIndex: The folder is not an index, can't be written, is being written by another process, or holds
            an index that is damaged, newer than this version, or built with another analysis, chunking or
            encoder.
    """
    try:
        # Check before locking, so that a foreign folder is never touched, and again under the lock.
        _base_manifest(folder, analysis, encoder, chunking)
        with locked_folder(folder, index_folder.LOCK):
            base = _base_manifest(folder, analysis, encoder, chunking)
            _remove_other_generations(folder, *(base.generation, base.generation + 1) if base else (1,))
            with closing(BuildTransaction(folder, base, analysis, encoder, chunking)) as transaction:
                transaction.open()
                yield transaction
    except BlockingIOError as error:
        raise IndexBusy(
            f"the index {folder} is being written by another process: try again when that has ended."
        ) from error
    except DamagedIndex as error:
        raise BadIndex(
            f"the index {folder} is damaged ({error}): delete the folder and build the index again."
        ) from error
    except (OSError, sqlite3.Error) as error:
        raise BadIndex(
            f"the index {folder} can't be written ({error}): is the disk full? If not, name a folder that "
            "you may write to."
        ) from error


def _base_manifest(
    folder: Path, analysis: Analysis, encoder: EncoderRecord | None, chunking: Chunking | None
) -> Manifest | None:
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise BadIndex(f"can't build an index in {folder}: it is a file; name a folder.")
    if (folder / index_folder.MANIFEST).exists():
        manifest = index_folder.read_manifest(folder)
        if manifest.analysis != analysis:
            raise index_folder.mismatch_error(folder, manifest.analysis, analysis)
        if chunking not in (None, manifest.chunking):
            raise index_folder.mismatch_error(folder, manifest.chunking, chunking)
        made_by = manifest.encoder
        if made_by is not None and (encoder is None or encoder.fingerprint != made_by.fingerprint):
            raise index_folder.mismatch_error(folder, made_by, encoder or "no encoder")
        return manifest
    ours = {index_folder.LOCK, index_folder.INCOMING_MANIFEST}
    names = [path.name for path in folder.iterdir()]
    if foreign := [name for name in names if name not in ours and not _GENERATION.fullmatch(name)]:
        raise BadIndex(
            f"won't build an index in {folder}: it holds other files ({min(foreign)}) and no index; "
            f"name a new or an empty folder, for example --out {folder}-index."
        )
    return None


def _start_generation(path: Path, base: Path | None) -> None:
    """Create a generation in `path`, with the content of `base` or, if that is None, without content."""
    _remove_generation(path)
    if base is None:
        (path / index_folder.LEXICAL).mkdir(parents=True)
    else:
        shutil.copytree(base, path, copy_function=_link_or_copy, ignore=shutil.ignore_patterns("*.lock"))


def _link_or_copy(file: str, copy: str) -> None:
    """Hard-link a file, or copy it if hard links are not possible.

    The document table is always copied, because it is modified in place.
    """
    if Path(file).name != index_folder.DOCUMENTS:
        with suppress(OSError):
            os.link(file, copy)
            return
    shutil.copyfile(file, copy)


def _remove_generation(path: Path) -> None:
    """Remove an unpublished generation, its document table first.

    A build resumes only if there is a document table, so it never resumes from a half-removed generation.
    """
    if path.exists():
        (path / index_folder.DOCUMENTS).unlink(missing_ok=True)
        shutil.rmtree(path)


def _remove_other_generations(folder: Path, *kept: int) -> None:
    """Remove all generations except those in `kept`, including any that killed builds left."""
    names = {generation_folder(folder, generation).name for generation in kept}
    for path in folder.iterdir():
        if _GENERATION.fullmatch(path.name) and path.name not in names:
            shutil.rmtree(path)
