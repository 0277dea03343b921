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
from pathlib import Path

from askance.core.errors import BadIndex
from askance.retrieval.analysis import Analysis
from askance.retrieval.ledger import Ledger
from askance.retrieval.lexical import ENGINE, LexicalWriter, read_opstamp
from askance.retrieval.manifest import (
    MANIFEST,
    SCHEMA_VERSION,
    Manifest,
    check_analysis,
    is_manifest_file,
    read_manifest,
    write_manifest,
)
from askance.retrieval.store import LEDGER, LEXICAL, LOCK, generation_folder
from askance.runtime.durable import sync
from askance.runtime.lock import locked_folder

_GENERATION = re.compile(r"generation-\d{6,}")


class Draft:
    """A generation that is being written.

    Attributes:
        lexical, ledger: what to write to.
        base: the manifest of the generation that it builds upon, if there is one.
        is_resumed: whether it goes on from a checkpoint of an interrupted build.
        was_published: whether the manifest names it now.
    """

    def __init__(self, folder: Path, base: Manifest | None, analysis: Analysis) -> None:
        self.base = base
        self._folder, self._analysis = folder, analysis
        self._generation = base.generation + 1 if base else 1
        self._path = generation_folder(folder, self._generation)
        self.is_resumed = self._is_resumable()
        if not self.is_resumed:
            _start(self._path, generation_folder(folder, base.generation) if base else None)
        self.lexical = LexicalWriter(self._path / LEXICAL, analysis)
        self.ledger = Ledger(self._path / LEDGER)
        self._has_checkpoint = self.is_resumed
        self.was_published = False

    def checkpoint(self) -> None:
        """Keep what was written so far for a later build, should this one not come to its end."""
        # A kill between these two leaves a stamp that does not fit the index: the draft is then not resumed.
        self.lexical.commit()
        self.ledger.commit(self._stamp())
        self._has_checkpoint = True

    def publish(self) -> Manifest:
        """Make this the index. The generation before is removed; those who have it open keep it."""
        self.checkpoint()
        manifest = self._manifest()
        self.lexical.finish()
        self.ledger.close()
        sync(self._path)
        sync(self._folder)
        write_manifest(self._folder, manifest)
        self.was_published = True
        _sweep(self._folder, {self._generation})
        return manifest

    def abandon(self) -> None:
        """Go back to the last checkpoint; without one nothing of the draft remains."""
        self.lexical.abandon()
        self.ledger.close()
        if not self._has_checkpoint:
            shutil.rmtree(self._path)

    def _manifest(self) -> Manifest:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        documents, passages = self.ledger.count()
        return Manifest(
            generation=self._generation,
            analysis=self._analysis,
            documents=documents,
            passages=passages,
            content_hash=self.ledger.content_hash(),
            engine=ENGINE,
            created_at=self.base.created_at if self.base else now,
            updated_at=now,
        )

    def _stamp(self) -> str:
        opstamp = read_opstamp(self._path / LEXICAL)
        return f"{SCHEMA_VERSION} {self._generation} {opstamp} {ENGINE} {self._analysis}"

    def _is_resumable(self) -> bool:
        if not (self._path / LEDGER).exists():
            return False
        try:
            with closing(Ledger(self._path / LEDGER)) as ledger:
                return ledger.stamp == self._stamp()
        except (sqlite3.DatabaseError, OSError, ValueError):
            # Whatever a kill left of it is of no use, and is replaced.
            return False


@contextmanager
def open_draft(folder: Path, analysis: Analysis) -> Iterator[Draft]:
    """A draft upon the index in `folder`, which need not exist. Unless published, it is abandoned in the end.

    Raises:
        BadIndex: the folder is something else, can't be written, is being written by another process, or
            holds an index that is newer than this version or built with another analysis.
    """
    # Looked at before the lock so that a foreign folder is never touched, and again under it.
    _base_manifest(folder, analysis)
    with _locked(folder):
        base = _base_manifest(folder, analysis)
        _sweep(folder, {base.generation, base.generation + 1} if base else {1})
        try:
            with _abandoned_unless_published(Draft(folder, base, analysis)) as draft:
                yield draft
        except (OSError, sqlite3.Error) as error:
            raise BadIndex(f"the index {folder} can't be written ({error}): is the disk full?") from error


@contextmanager
def _abandoned_unless_published(draft: Draft) -> Iterator[Draft]:
    try:
        yield draft
    finally:
        if not draft.was_published:
            draft.abandon()


def _base_manifest(folder: Path, analysis: Analysis) -> Manifest | None:
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise BadIndex(f"can't build an index in {folder}: it is a file; name a folder.")
    if (folder / MANIFEST).exists():
        manifest = read_manifest(folder)
        check_analysis(folder, manifest, analysis)
        return manifest
    foreign = [path.name for path in folder.iterdir() if not _is_ours(path.name)]
    if foreign:
        raise BadIndex(
            f"won't build an index in {folder}: it holds other files ({min(foreign)}) and no index; "
            "name a new or an empty folder."
        )
    return None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(folder, LOCK))
        except BlockingIOError as error:
            raise _busy(folder) from error
        except OSError as error:
            raise BadIndex(
                f"can't write an index in {folder}: {error.strerror}; name another folder."
            ) from error
        yield


def _busy(folder: Path) -> BadIndex:
    return BadIndex(f"the index {folder} is being written by another process: try again when that has ended.")


def _start(path: Path, base: Path | None) -> None:
    """Make `path` a generation with the content of `base`, or an empty one."""
    if path.exists():
        shutil.rmtree(path)
    try:
        (path / LEXICAL).mkdir(parents=True)
        if base is not None:
            for file in (base / LEXICAL).iterdir():
                _link(file, path / LEXICAL / file.name)
            shutil.copyfile(base / LEDGER, path / LEDGER)
    except BaseException:  # Ctrl-C, too: nothing half-made stays, and the error goes on
        shutil.rmtree(path, ignore_errors=True)
        raise


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
