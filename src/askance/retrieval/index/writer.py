"""The writer of an index: insert, remove and synchronise documents, and embed their passages."""

import asyncio
import dataclasses
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path

from askance.core.errors import BadIndex, DocumentError, IndexBusy, InputError, NothingIndexed
from askance.core.filters import Filter
from askance.core.ports import Encoder
from askance.core.types import Passage
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index import index_folder
from askance.retrieval.index.build_report import BuildProgress
from askance.retrieval.index.document_files import continue_table
from askance.retrieval.index.document_table import (
    GIVEN_ID,
    DamagedIndex,
    DocumentEntry,
    DocumentTable,
)
from askance.retrieval.index.documents import (
    HIDDEN,
    Document,
    SkippedSource,
    absolute_path,
    content_digest,
    spelled,
)
from askance.retrieval.index.formats import READERS
from askance.retrieval.index.index_folder import EncoderRecord, Manifest, generation_folder
from askance.retrieval.index.lexical import ENGINE, LexicalWriter, read_opstamp
from askance.retrieval.index.passages import Chunking, cut_passages, passage_id
from askance.retrieval.index.vectors import VectorWriter, validate_vectors
from askance.storage.durable_files import locked_folder, sync
from askance.text.words import scripts_of

CHECKPOINT_PASSAGES = 100_000
CHECKPOINT_VECTORS = 5_000
_PASSAGES_AT_ONCE = 256
_LOOKED_UP, _SHORT = 500, 10_000
"""How many rows are looked up at once, and the most characters of one."""
_CHANGES = {"added", "updated", "removed"}


class IndexWriter:
    """Changes to an index, of which readers see all at once after `commit`, or none.

    The writer makes a new generation. It starts with hard links to the files of the previous one, which are
    never modified in place; only the recent changes of the document table are copied. The generation becomes
    the index when the manifest names it. Until then, only a later writer reads it, to resume from the last
    checkpoint.

    Attributes:
        engine: The library that writes the passages, with its version.
        outcomes: The numbers of documents by what became of them (see `BuildReport`).
        num_documents: The number of documents that were given to `sync`.
        num_encoded: The number of passages that were embedded.
        skipped, hidden: The sources that `sync` was given without their documents, with the reasons, and
            those of them whose names begin with a dot.
    """

    engine = ENGINE

    def __init__(
        self,
        folder: Path,
        base: Manifest | None,
        analysis: Analysis,
        chunking: Chunking | None,
        encoder: Encoder | None,
        made_by: EncoderRecord | None,
        progress: Callable[[BuildProgress], None] | None,
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self.num_documents = self.num_encoded = 0
        self.skipped: list[SkippedSource] = []
        self.hidden: list[str] = []
        self._num_passages = self._num_unsaved = 0
        self._folder, self._base, self._analysis = folder, base, analysis
        self._encoder, self._made_by, self._progress = encoder, made_by, progress
        self._chunking = base.chunking if base else chunking or Chunking()
        self._generation = base.generation + 1 if base else 1
        self._open_files = ExitStack()

    def open(self) -> None:
        """Resume from the last checkpoint, or start with the content of the previous generation."""
        self._path = generation_folder(self._folder, self._generation)
        self._is_resumed = self._has_checkpoint = self._is_resumable()
        if not self._is_resumed:
            base = generation_folder(self._folder, self._base.generation) if self._base else None
            index_folder.start_generation(self._path, base)
            if base is not None:
                continue_table(base / index_folder.DOCUMENTS, self._path / index_folder.DOCUMENTS)
        self.documents = DocumentTable(self._path / index_folder.DOCUMENTS)
        self._open_files.callback(self.documents.close)
        self.lexical = LexicalWriter(self._path / index_folder.LEXICAL, self._analysis)
        self._open_files.callback(self.lexical.finish)
        self.vectors: VectorWriter | None = None
        if self._made_by is not None:
            self.vectors = VectorWriter(
                self._path / index_folder.VECTORS, self._made_by.dimensions, self.documents
            )
            self._open_files.callback(self.vectors.close)

    def upsert(self, document: Document) -> tuple[str, str]:
        """Add a document, or put it in the place of the document with the same id and path.

        If another document has its id, it gets the id "ID~2", "ID~3" and so on.

        Returns:
            Its id in the index, and "added", "updated" or "unchanged".
        """
        digest = content_digest(document)
        entry = next(self.documents.matching({GIVEN_ID: document.id, "place = ?": document.path}), None)
        if entry is not None and entry.digest == digest:
            return entry.id, "unchanged"
        return self._store(document, digest, entry)

    def remove(
        self, id: str | None = None, *, where: Filter | None = None, path: str | None = None
    ) -> list[str]:
        """Remove the documents that have this id in the index, pass this filter and have this path.

        None stands for any id, all fields or any path.

        Returns:
            The ids of the removed documents.
        """
        return self._discard(self.documents.matching({"id = ?": id, "place = ?": path}, where))

    def sync(self, documents: Iterable[Document | SkippedSource], sources: Sequence[Path]) -> None:
        """Make the index hold exactly these documents of `sources` (see `build.build_index`).

        Documents of skipped sources, and those that are not in `sources`, stay as they are.

        Raises:
            NothingIndexed: There are no documents.
        """
        for item in self._looked_up(documents):
            if isinstance(item, Document):
                # Checkpoints are written only between documents, so that index and document table agree.
                self._checkpoint_after(CHECKPOINT_PASSAGES)
                self.num_documents += 1
                self._add_or_update(item)
            elif item.reason == HIDDEN:
                self.hidden.append(item.source)
            else:
                self.skipped.append(item)
            self._report(item.source)
        if not self.num_documents:
            raise self._nothing_to_index(sources)
        kept = {skipped.path for skipped in self.skipped if skipped.path}
        places = (absolute_path(spelled(source)) for source in sources)
        self._discard(self.documents.not_seen(places, kept))

    def _looked_up(self, documents: Iterable[Document | SkippedSource]) -> Iterator[Document | SkippedSource]:
        """Yield the items, after the ids of many short rows are looked up at once, which is faster."""
        rows = list[Document]()
        for item in chain(documents, (None,)):
            is_short = isinstance(item, Document) and item.is_row and len(item.text) <= _SHORT
            if rows and (len(rows) == _LOOKED_UP or not is_short):
                self.documents.look_up([each.id for each in rows])
                yield from rows
                rows.clear()
            if isinstance(item, Document) and is_short:
                rows.append(item)
            elif item is not None:
                yield item

    def commit(self) -> Manifest:
        """Embed the passages that have no vector, make all changes visible, and return the manifest.

        Readers that have the previous generation open can still read it.

        Raises:
            DocumentError: No document would be left.
            ModelFailure: The encoder failed. The index is unchanged, but a later writer uses the vectors.
        """
        if not self.documents.state.documents:
            raise DocumentError("the index would be empty, and it needs a document: add another first.")
        if self._encoder is not None:
            asyncio.run(self._encode(self._encoder))
        has_changed = self._is_resumed or self.num_encoded or self.outcomes.keys() & _CHANGES
        is_to_cluster = not has_changed and self.vectors is not None and self.vectors.is_to_cluster
        has_encoder = self.vectors is not None
        if self._base and not (has_changed or is_to_cluster) and (self._base.encoder is None) != has_encoder:
            return self._base
        if self.vectors is not None:
            self.vectors.compact()
        self.checkpoint()
        if self.vectors is not None:
            self.vectors.cluster()
            self.vectors.remove_unused()
        now, state = datetime.now(UTC).isoformat(timespec="seconds"), self.documents.state
        manifest = Manifest(
            self._generation,
            self._analysis,
            state.documents,
            state.passages,
            f"{state.hash:032x}",
            self.engine,
            self._base.created_at if self._base else now,
            now,
            self._made_by,
            self._chunking,
            {name: count for name, count in sorted(state.scripts.items()) if count},
            self.documents.fields(),
        )
        self._publish(manifest)
        return manifest

    def _publish(self, manifest: Manifest) -> None:
        self._open_files.close()
        sync(self._path)
        sync(self._folder)
        index_folder.write_manifest(self._folder, manifest)
        index_folder.remove_other_generations(self._folder, self._generation)

    def checkpoint(self) -> None:
        """Make everything written up to now durable, so that a later build can resume from here."""
        # After a kill between these commits, the stamp does not match the index, so no build resumes from it.
        self.lexical.commit()
        if self.vectors is not None:
            self.vectors.commit()
        self.documents.commit(self._stamp())
        self._has_checkpoint, self._num_unsaved = True, 0

    def close(self) -> None:
        """End the writer.

        Changes since the last checkpoint are discarded. Without a checkpoint, all changes are discarded.
        """
        self._open_files.close()
        if not self._has_checkpoint:
            index_folder.remove_generation(self._path)

    async def _encode(self, encoder: Encoder) -> None:
        """Embed all passages in the index that have no vector, including passages from earlier builds.

        Raises:
            ModelFailure: The encoder failed, or returned vectors that are not of length 1.
            OSError: The vectors can't be written.
            DamagedIndex: Passages are missing from the lexical index.
        """
        writer, state = self.vectors, self.documents.state
        assert writer is not None  # there is an encoder
        to_encode = state.passages - state.live
        if not to_encode:
            return
        self.checkpoint()
        with closing(self._not_encoded()) as passages:  # its query must not outlive the table
            while batch := list(islice(passages, _PASSAGES_AT_ONCE)):
                self._checkpoint_after(CHECKPOINT_VECTORS)
                embedded = await encoder.embed([passage.titled_text for passage, _ in batch], "passage")
                vectors = validate_vectors(embedded, len(batch), writer.dimensions, encoder.name)
                for row, (_, document) in enumerate(batch):
                    writer.add(vectors[row : row + 1], document)
                self.num_encoded += len(batch)
                self._num_unsaved += len(batch)
                self._report("encoding", to_encode)

    def _not_encoded(self) -> Generator[tuple[Passage, DocumentEntry | None]]:
        """Yield the committed passages without vectors, the last one of each document with its entry."""
        lexical = self.lexical.committed()
        for document in self.documents.not_encoded():
            passages = lexical.passages_of(document.id)
            for number in range(1, document.passages + 1):
                id = passage_id(document.id, number, document.passages)
                if id not in passages:
                    raise DamagedIndex(f"passage {id!r} is not in the lexical index")
                yield passages[id], document if number == document.passages else None

    def _checkpoint_after(self, num_passages: int) -> None:
        if self._num_unsaved >= num_passages:
            self.checkpoint()

    def _report(self, source: str, to_encode: int = 0) -> None:
        if self._progress:
            counts = self.num_documents, self._num_passages, len(self.skipped), self.num_encoded, to_encode
            self._progress(BuildProgress(source, *counts))

    def _add_or_update(self, document: Document) -> None:
        digest = content_digest(document)
        entry = self.documents.find(document, digest)
        is_seen = entry is not None and self.documents.is_seen(entry)
        if entry is not None and entry.digest == digest:
            has_moved = entry.path != document.path and not is_seen and not Path(entry.path).exists()
            if not has_moved:
                self.documents.mark_seen(entry)
                self.outcomes["duplicate" if is_seen else "unchanged"] += 1
                return
        self._store(document, digest, entry)

    def _store(self, document: Document, digest: bytes, entry: DocumentEntry | None) -> tuple[str, str]:
        """Add a document, in place of `entry` if there is one, and return its id and the outcome."""
        if entry is None:
            id, outcome = self.documents.free_id(document.id), "added"
        else:
            self._delete(entry)
            id, outcome = entry.id, "updated"
        named = document if document.id == id else dataclasses.replace(document, id=id)
        passages = tuple(cut_passages(named, self._chunking))
        scripts = (scripts_of(passage.titled_text) for passage in passages)
        number = self.documents.add(document, id, digest, scripts)
        self.lexical.add(id, passages, number)
        self._num_passages += len(passages)
        self._num_unsaved += len(passages)
        self.outcomes[outcome] += 1
        return id, outcome

    def _discard(self, entries: Iterable[DocumentEntry]) -> list[str]:
        removed = list(entries)
        for entry in removed:
            self._delete(entry)
            self.outcomes["removed"] += 1
        return [entry.id for entry in removed]

    def _delete(self, entry: DocumentEntry) -> None:
        self.lexical.remove(entry.id)
        self.documents.remove(entry)

    def _stamp(self) -> str:
        opstamp = read_opstamp(self._path / index_folder.LEXICAL)
        encoder = "" if self._made_by is None else f" {self._made_by.fingerprint}"
        return (
            f"{index_folder.SCHEMA_VERSION} {self._generation} {opstamp} {ENGINE} {self._analysis} "
            f"{self._chunking}{encoder}"
        )

    def _is_resumable(self) -> bool:
        if not (self._path / index_folder.DOCUMENTS).exists():
            return False
        try:
            with closing(DocumentTable(self._path / index_folder.DOCUMENTS)) as documents:
                return documents.state.stamp == self._stamp()
        except (sqlite3.DatabaseError, OSError, ValueError, LookupError, TypeError):
            # A killed build left the table unreadable, so the generation is replaced.
            return False

    def _nothing_to_index(self, sources: Sequence[Path]) -> NothingIndexed:
        named = ", ".join(map(str, sources)) or "no files at all"
        counts = {"skipped": len(self.skipped), "hidden": len(self.hidden)}
        found = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        lines = "".join(f"\n  {each.source}: {each.reason}" for each in self.skipped)
        return NothingIndexed(
            f"nothing to index in {named}{f' ({found})' if found else ''}: give files with text, of the "
            f"kinds {' '.join(READERS)}.{lines}"
        )


@contextmanager
def open_writer(
    folder: Path,
    *,
    analysis: Analysis | None = None,
    encoder: Encoder | None = None,
    chunking: Chunking | None = None,
    progress: Callable[[BuildProgress], None] | None = None,
) -> Iterator[IndexWriter]:
    """Open the index in `folder`, which need not exist, for changes. Without a commit, it stays as it is.

    Args:
        analysis: The text analysis; None takes that of the index, which must exist.
        encoder: Embeds the passages. An index with vectors can only be changed with the encoder that made
            them.
        chunking: How documents are split; None takes the chunking of the index, or the default.
        progress: Called after every document, and while passages are embedded.

    Raises:
        BadIndex: The folder is not an index, can't be written, is being written by another process, or holds
            an index that is damaged, newer than this version, or built with another analysis, chunking or
            encoder.
        InputError: There is an encoder, and the function is called inside a running event loop.
        ModelFailure: The encoder failed.
    """
    analysis = analysis or index_folder.read_manifest(folder).analysis
    made_by = None if encoder is None else describe_encoder(encoder)
    try:
        # Check before locking, so that a foreign folder is never touched, and again under the lock.
        index_folder.read_base(folder, analysis, made_by, chunking)
        with locked_folder(folder, index_folder.LOCK):
            base = index_folder.read_base(folder, analysis, made_by, chunking)
            index_folder.remove_other_generations(
                folder, *(base.generation, base.generation + 1) if base else (1,)
            )
            with closing(IndexWriter(folder, base, analysis, chunking, encoder, made_by, progress)) as writer:
                writer.open()
                yield writer
    except BlockingIOError as error:
        raise IndexBusy(
            f"the index {folder} is being written by another process: try again when that has ended."
        ) from error
    except DamagedIndex as error:
        raise BadIndex(
            f"the index {folder} is damaged ({error}): delete the folder and build the index again."
        ) from error
    except (OSError, sqlite3.Error) as error:
        reason = error.args[0][0][2] if isinstance(error, shutil.Error) else error  # the first of many files
        raise BadIndex(
            f"the index {folder} can't be written ({reason}): is the disk full? If not, name a folder that "
            "you may write to."
        ) from error


def describe_encoder(encoder: Encoder) -> EncoderRecord:
    """Return the record of `encoder` for the manifest of an index.

    Raises:
        InputError: The function is called inside a running event loop.
        ModelFailure: The encoder failed.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        none = asyncio.run(encoder.embed([], "passage"))
        return EncoderRecord(encoder.name, encoder.fingerprint, int(none.shape[1]))
    raise InputError(
        "build_index was called with an encoder inside a running event loop: write "
        "`await asyncio.to_thread(build_index, …)` there."
    )
