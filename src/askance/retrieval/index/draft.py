"""The writing of one generation of an index, under the lock of its folder.

A draft starts as hard links to the files of the generation before, of which nothing that is in use is ever
modified in place, so that it costs no copy of them. It becomes the index when the manifest names it; until
then it is nothing to anyone but a later build, which goes on from its last checkpoint.
"""

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from askance.core.errors import BadIndex
from askance.retrieval.index import store
from askance.retrieval.index.ledger import Damaged, Ledger
from askance.retrieval.index.lexical import ENGINE, Analysis, LexicalWriter, read_opstamp
from askance.retrieval.index.store import EncoderNote, Manifest, generation_folder
from askance.retrieval.index.vectors import VectorWriter
from askance.storage.durable_files import locked_folder, sync

_GENERATION = re.compile(r"generation-\d{6,}")


class Draft:
    """A generation that is being written.

    Attributes:
        lexical, ledger: what to write to.
        vectors: the same, if there is an encoder.
        base: the manifest of the generation that it builds upon, if there is one.
        is_resumed: whether it goes on from a checkpoint of an interrupted build.
    """

    def __init__(
        self, folder: Path, base: Manifest | None, analysis: Analysis, encoder: EncoderNote | None
    ) -> None:
        self.base = base
        self._generation = base.generation + 1 if base else 1
        self._folder, self._analysis, self._encoder = folder, analysis, encoder
        self._path = generation_folder(folder, self._generation)
        self.is_resumed = self._has_checkpoint = self._is_resumable()
        self._open_files = ExitStack()

    def open(self) -> None:
        """Go on from the last checkpoint, or else with the content of the generation before."""
        if not self.is_resumed:
            _start(self._path, generation_folder(self._folder, self.base.generation) if self.base else None)
        self.ledger = Ledger(self._path / store.LEDGER)
        self._open_files.callback(self.ledger.close)
        self.lexical = LexicalWriter(self._path / store.LEXICAL, self._analysis)
        self._open_files.callback(self.lexical.finish)
        self.vectors: VectorWriter | None = None
        if self._encoder is not None:
            self.vectors = VectorWriter(self._path / store.VECTORS, self._encoder.dimensions, self.ledger)
            self._open_files.callback(self.vectors.close)

    def checkpoint(self) -> None:
        """Keep what was written so far for a later build, should this one not come to its end."""
        # A kill between these leaves a stamp that does not fit the index: the draft is then not resumed.
        self.lexical.commit()
        if self.vectors is not None:
            self.vectors.commit()
        self.ledger.commit(self._stamp())
        self._has_checkpoint = True

    def publish(self) -> Manifest:
        """Make this the index. The generation before is removed; those who have it open keep it."""
        if self.vectors is not None:
            self.vectors.compact()
        self.checkpoint()
        if self.vectors is not None:
            self.vectors.remove_unused()
        manifest = self._manifest()
        self._open_files.close()
        sync(self._path)
        sync(self._folder)
        store.write_manifest(self._folder, manifest)
        _sweep(self._folder, self._generation)
        return manifest

    def close(self) -> None:
        """End. What was written since the last checkpoint is forgotten, and all if there was none."""
        self._open_files.close()
        if not self._has_checkpoint:
            _remove(self._path)

    def _manifest(self) -> Manifest:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        created_at = self.base.created_at if self.base else now
        counts = self.ledger.summary()
        return Manifest(self._generation, self._analysis, *counts, ENGINE, created_at, now, self._encoder)

    def _stamp(self) -> str:
        opstamp = read_opstamp(self._path / store.LEXICAL)
        encoder = "" if self._encoder is None else f" {self._encoder.fingerprint}"
        return f"{store.SCHEMA_VERSION} {self._generation} {opstamp} {ENGINE} {self._analysis}{encoder}"

    def _is_resumable(self) -> bool:
        if not (self._path / store.LEDGER).exists():
            return False
        try:
            with closing(Ledger(self._path / store.LEDGER)) as ledger:
                return ledger.stamp == self._stamp()
        except (sqlite3.DatabaseError, OSError, ValueError, LookupError, TypeError):
            # Whatever a kill left of it is of no use, and is replaced.
            return False


@contextmanager
def open_draft(folder: Path, analysis: Analysis, encoder: EncoderNote | None = None) -> Iterator[Draft]:
    """A draft upon the index in `folder`, which need not exist.

    Args:
        encoder: what makes its vectors; an index that has none gets them.

    Raises:
        BadIndex: the folder is something else, can't be written, is being written by another process, or
            holds an index that is damaged, newer than this version, or built with another analysis or
            encoder.
    """
    try:
        # Looked at before the lock so that a foreign folder is never touched, and again under it.
        _base_manifest(folder, analysis, encoder)
        with locked_folder(folder, store.LOCK):
            base = _base_manifest(folder, analysis, encoder)
            _sweep(folder, *(base.generation, base.generation + 1) if base else (1,))
            with closing(Draft(folder, base, analysis, encoder)) as draft:
                draft.open()
                yield draft
    except BlockingIOError as error:
        raise BadIndex(
            f"the index {folder} is being written by another process: try again when that has ended."
        ) from error
    except Damaged as error:
        raise BadIndex(
            f"the index {folder} is damaged ({error}): delete the folder and build the index again."
        ) from error
    except (OSError, sqlite3.Error) as error:
        raise BadIndex(
            f"the index {folder} can't be written ({error}): is the disk full? If not, name a folder that "
            "you may write to."
        ) from error


def _base_manifest(folder: Path, analysis: Analysis, encoder: EncoderNote | None) -> Manifest | None:
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise BadIndex(f"can't build an index in {folder}: it is a file; name a folder.")
    if (folder / store.MANIFEST).exists():
        manifest = store.read_manifest(folder)
        if manifest.analysis != analysis:
            raise store.built_otherwise(folder, manifest.analysis, analysis)
        made_by = manifest.encoder
        if made_by is not None and (encoder is None or encoder.fingerprint != made_by.fingerprint):
            raise store.built_otherwise(folder, made_by, encoder or "no encoder")
        return manifest
    ours = {store.LOCK, store.INCOMING_MANIFEST}
    names = [path.name for path in folder.iterdir()]
    if foreign := [name for name in names if name not in ours and not _GENERATION.fullmatch(name)]:
        raise BadIndex(
            f"won't build an index in {folder}: it holds other files ({min(foreign)}) and no index; "
            f"name a new or an empty folder, for example --out {folder}-index."
        )
    return None


def _start(path: Path, base: Path | None) -> None:
    """Make `path` a generation with the content of `base`, or an empty one."""
    _remove(path)
    if base is None:
        (path / store.LEXICAL).mkdir(parents=True)
    else:
        shutil.copytree(base, path, copy_function=_take_over, ignore=shutil.ignore_patterns("*.lock"))


def _take_over(file: str, copy: str) -> None:
    """Link a file, or copy it: the ledger, which is modified in place, and where there are no hard links."""
    if Path(file).name != store.LEDGER:
        with suppress(OSError):
            os.link(file, copy)
            return
    shutil.copyfile(file, copy)


def _remove(path: Path) -> None:
    """Remove a draft; what a kill leaves of it has no ledger, so that no build goes on with it."""
    if path.exists():
        (path / store.LEDGER).unlink(missing_ok=True)
        shutil.rmtree(path)


def _sweep(folder: Path, *kept: int) -> None:
    """Remove all generations but those, left there by builds that were killed."""
    names = {generation_folder(folder, generation).name for generation in kept}
    for path in folder.iterdir():
        if _GENERATION.fullmatch(path.name) and path.name not in names:
            shutil.rmtree(path)
