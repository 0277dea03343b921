"""The writing of one generation of an index, under the lock of its folder.

A draft starts as hard links to the files of the generation before, which are never modified in place, so that
it costs no copy of them. It becomes the index when the manifest names it; until then it is nothing to anyone
but a later build, which goes on from its last checkpoint.
"""

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from errno import EACCES, EPERM, EROFS
from pathlib import Path

from askance.core.errors import BadIndex
from askance.retrieval.ledger import Ledger
from askance.retrieval.lexical import ENGINE, Analysis, LexicalWriter, read_opstamp
from askance.retrieval.manifest import (
    MANIFEST,
    SCHEMA_VERSION,
    EncoderNote,
    Manifest,
    check_analysis,
    check_encoder,
    encoder_of,
    is_manifest_file,
    read_manifest,
    write_manifest,
)
from askance.retrieval.places import Damaged
from askance.retrieval.store import LEDGER, LEXICAL, LOCK, generation_folder
from askance.retrieval.vectors import VECTORS, VectorWriter
from askance.runtime.durable import sync
from askance.runtime.lock import locked_folder

_GENERATION = re.compile(r"generation-\d{6,}")


class Draft:
    """A generation that is being written.

    Attributes:
        lexical, ledger: what to write to.
        vectors: the same, if there is an encoder.
        generation: its number.
        base: the manifest of the generation that it builds upon, if there is one.
        is_resumed: whether it goes on from a checkpoint of an interrupted build.
        was_published: whether the manifest names it now.
    """

    def __init__(
        self, folder: Path, base: Manifest | None, analysis: Analysis, encoder: EncoderNote | None
    ) -> None:
        self.base = base
        self.generation = base.generation + 1 if base else 1
        self._folder, self._analysis, self._encoder = folder, analysis, encoder
        self._path = generation_folder(folder, self.generation)
        self.is_resumed = self._is_resumable()
        if not self.is_resumed:
            _start(self._path, generation_folder(folder, base.generation) if base else None)
        self.lexical = LexicalWriter(self._path / LEXICAL, analysis)
        self.ledger = Ledger(self._path / LEDGER)
        self.vectors = None if encoder is None else self._vectors(encoder.dimensions)
        self._has_checkpoint = self.is_resumed
        self.was_published = False

    @property
    def lexical_folder(self) -> Path:
        """Where the lexical index lies, which has what was written before the last checkpoint."""
        return self._path / LEXICAL

    def checkpoint(self) -> None:
        """Keep what was written so far for a later build, should this one not come to its end."""
        # A kill between these two leaves a stamp that does not fit the index: the draft is then not resumed.
        self.lexical.commit()
        self.checkpoint_vectors()

    def checkpoint_vectors(self) -> None:
        """The same where nothing but vectors was written since the last one."""
        if self.vectors is not None:
            self.vectors.commit()
        self.ledger.commit(self._stamp())
        self._has_checkpoint = True

    def publish(self) -> Manifest:
        """Make this the index. The generation before is removed; those who have it open keep it."""
        self.checkpoint()
        manifest = self._manifest()
        self.lexical.finish()
        if self.vectors is not None:
            self.vectors.finish()
        self.ledger.close()
        sync(self._path)
        sync(self._folder)
        write_manifest(self._folder, manifest)
        self.was_published = True
        _sweep(self._folder, {self.generation})
        return manifest

    def abandon(self) -> None:
        """Go back to the last checkpoint; without one nothing of the draft remains."""
        self.lexical.abandon()
        if self.vectors is not None:
            self.vectors.abandon()
        self.ledger.close()
        if not self._has_checkpoint:
            _remove(self._path)

    def _manifest(self) -> Manifest:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        documents, passages = self.ledger.count()
        return Manifest(
            generation=self.generation,
            analysis=self._analysis,
            documents=documents,
            passages=passages,
            content_hash=self.ledger.content_hash(),
            engine=ENGINE,
            created_at=self.base.created_at if self.base else now,
            updated_at=now,
            encoder=self._encoder,
        )

    def _vectors(self, dimensions: int) -> VectorWriter:
        return VectorWriter(self._path / VECTORS, self.generation, dimensions, self.ledger.places)

    def _stamp(self) -> str:
        opstamp = read_opstamp(self._path / LEXICAL)
        encoder = "" if self._encoder is None else f" {self._encoder.fingerprint}"
        return f"{SCHEMA_VERSION} {self.generation} {opstamp} {ENGINE} {self._analysis}{encoder}"

    def _is_resumable(self) -> bool:
        if not (self._path / LEDGER).exists():
            return False
        try:
            with closing(Ledger(self._path / LEDGER)) as ledger:
                return ledger.stamp == self._stamp()
        except (sqlite3.DatabaseError, OSError, ValueError, LookupError, TypeError):
            # Whatever a kill left of it is of no use, and is replaced.
            return False


@contextmanager
def open_draft(folder: Path, analysis: Analysis, encoder: EncoderNote | None = None) -> Iterator[Draft]:
    """A draft upon the index in `folder`, which need not exist. Unless published, it is abandoned in the end.

    Args:
        encoder: what makes its vectors; an index that has none gets them.

    Raises:
        BadIndex: the folder is something else, can't be written, is being written by another process, or
            holds an index that is damaged, newer than this version, or built with another analysis or
            encoder.
    """
    # Looked at before the lock so that a foreign folder is never touched, and again under it.
    with _for_writing(folder):
        _base_manifest(folder, analysis, encoder)
    with _locked(folder):
        base = _base_manifest(folder, analysis, encoder)
        _sweep(folder, {base.generation, base.generation + 1} if base else {1})
        try:
            with _abandoned_unless_published(Draft(folder, base, analysis, encoder)) as draft:
                yield draft
        except Damaged as error:
            raise BadIndex(
                f"the index {folder} is damaged ({error}): delete the folder and build the index again."
            ) from error
        except (OSError, sqlite3.Error) as error:
            is_forbidden = getattr(error, "errno", None) in (EACCES, EPERM, EROFS)
            remedy = "name a folder that you may write to." if is_forbidden else "is the disk full?"
            raise BadIndex(f"the index {folder} can't be written ({error}): {remedy}") from error


@contextmanager
def _abandoned_unless_published(draft: Draft) -> Iterator[Draft]:
    try:
        yield draft
    finally:
        if not draft.was_published:
            draft.abandon()


def _base_manifest(folder: Path, analysis: Analysis, encoder: EncoderNote | None) -> Manifest | None:
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise BadIndex(f"can't build an index in {folder}: it is a file; name a folder.")
    if (folder / MANIFEST).exists():
        manifest = read_manifest(folder)
        check_analysis(folder, manifest, analysis)
        if manifest.encoder is not None:
            _check_goes_on(folder, manifest, encoder)
        return manifest
    foreign = [path.name for path in folder.iterdir() if not _is_ours(path.name)]
    if foreign:
        raise BadIndex(
            f"won't build an index in {folder}: it holds other files ({min(foreign)}) and no index; "
            f"name a new or an empty folder, for example --out {folder}-index."
        )
    return None


def _check_goes_on(folder: Path, manifest: Manifest, encoder: EncoderNote | None) -> None:
    made_by = encoder_of(folder, manifest)
    if encoder is None:
        raise BadIndex(
            f"the index {folder} has vectors, made by the encoder {made_by.name}: build with that encoder, "
            "so that new passages get theirs, or build another index, in another folder."
        )
    check_encoder(folder, manifest, encoder.name, encoder.fingerprint)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with ExitStack() as stack:
        with _for_writing(folder):
            stack.enter_context(locked_folder(folder, LOCK))
        yield


@contextmanager
def _for_writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except BlockingIOError as error:
        raise BadIndex(
            f"the index {folder} is being written by another process: try again when that has ended."
        ) from error
    except OSError as error:
        raise BadIndex(f"can't write an index in {folder}: {error.strerror}; name another folder.") from error


def _start(path: Path, base: Path | None) -> None:
    """Make `path` a generation with the content of `base`, or an empty one."""
    if path.exists():
        _remove(path)
    try:
        (path / LEXICAL).mkdir(parents=True)
        if base is not None:
            for file in (base / LEXICAL).iterdir():
                _link(file, path / LEXICAL / file.name)
            if (base / VECTORS).exists():
                (path / VECTORS).mkdir()
                for file in (base / VECTORS).iterdir():
                    _link(file, path / VECTORS / file.name)
            shutil.copyfile(base / LEDGER, path / LEDGER)
    except BaseException:  # Ctrl-C, too: nothing half-made stays, and the error goes on
        shutil.rmtree(path, ignore_errors=True)
        raise


def _remove(path: Path) -> None:
    """Remove a draft; what a kill leaves of it has no ledger, so that no build goes on with it."""
    (path / LEDGER).unlink(missing_ok=True)
    shutil.rmtree(path)


def _link(file: Path, copy: Path) -> None:
    if file.suffix == ".lock":
        return
    try:
        copy.hardlink_to(file)
    except OSError:
        # Not every file system has hard links.
        shutil.copyfile(file, copy)


def _sweep(folder: Path, kept: set[int]) -> None:
    """Remove all generations but those, left there by builds that were killed."""
    names = {generation_folder(folder, generation).name for generation in kept}
    for path in folder.iterdir():
        if _GENERATION.fullmatch(path.name) and path.name not in names:
            shutil.rmtree(path)


def _is_ours(name: str) -> bool:
    return name == LOCK or is_manifest_file(name) or bool(_GENERATION.fullmatch(name))
