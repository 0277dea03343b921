"""Build or update an index: read documents, index and embed passages, and touch only what changed."""

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from askance.core.errors import DocumentError, InputError, NothingIndexed
from askance.core.filters import Filter
from askance.core.ports import Encoder
from askance.core.types import Passage
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.build_report import BuildProgress, BuildReport
from askance.retrieval.index.build_transaction import BuildTransaction, open_transaction
from askance.retrieval.index.document_table import DamagedIndex, DocumentEntry, content_digest
from askance.retrieval.index.documents import (
    HIDDEN,
    Document,
    SkippedSource,
    absolute_path,
    read_documents,
    spelled,
)
from askance.retrieval.index.field_columns import FieldColumns
from askance.retrieval.index.formats import READERS
from askance.retrieval.index.index_folder import MANIFEST, EncoderRecord, Manifest, read_manifest
from askance.retrieval.index.lexical import LexicalIndex
from askance.retrieval.index.passages import Chunking, cut_passages, passage_id
from askance.retrieval.index.reader_process import ReadingLimits
from askance.retrieval.index.vectors import validate_vectors
from askance.text.words import detect_language

CHECKPOINT_PASSAGES = 100_000
CHECKPOINT_VECTORS = 5_000
_PASSAGES_AT_ONCE = 256
_SAMPLED_DOCUMENTS, _SAMPLED_CHARACTERS = 100, 2_000
_OUTCOMES = ("added", "updated", "unchanged", "removed", "duplicates")
_CHANGES = {"added", "updated", "removed"}


def build_index(
    sources: Sequence[Path],
    out: Path,
    *,
    analysis: Analysis | None = None,
    encoder: Encoder | None = None,
    chunking: Chunking | None = None,
    follow_links: bool = False,
    limits: ReadingLimits = ReadingLimits(),
    progress: Callable[[BuildProgress], None] | None = None,
) -> BuildReport:
    """Build the index folder `out` from files and folders, or update an existing index there.

    Documents are matched with those in the index as follows:

    - A document with the same id and content as one in the index is the same document, even if it is found in
      another file. The index keeps it unchanged. Only if the first file no longer exists, the index records
      the other file as its source.
    - A document with the same id and file as one in the index, but different content, replaces the old
      document.
    - Any other document is new. If its id is taken (by another file, or by an earlier row of the same file),
      it gets the id "ID~2", "ID~3" and so on, so that nothing is overwritten.
    - A document that is no longer found is removed if its file is in `sources` or in a folder of `sources`.
      Documents of other files stay, as do the documents of a file that is skipped this time.

    The old index stays in use until the new one is complete, even if the build is interrupted. Every 100,000
    passages and every 5,000 vectors the build writes a checkpoint, from which the next build can resume.

    Args:
        analysis: The text analysis. By default it is that of the existing index or, for a new index, the
            analysis of the language that the first documents are in (see `text.words.detect_language`).
        encoder: Embeds each passage that has no vector yet. An index with vectors can only be updated with
            the encoder that made them.
        chunking: How documents are split into passages; None takes the chunking of the index, or the default.
        follow_links: Follow links in the folders of `sources` to files outside them. Otherwise these files
            are skipped. If an earlier build read them, their documents are removed from the index.
        limits: What reading one file may take. A file that takes more is skipped.
        progress: Called after every document, and while passages are embedded.

    Raises:
        DocumentError: A source does not exist. The index is unchanged.
        NothingIndexed: `sources` hold nothing to index. The index is unchanged.
        BadIndex: `out` is not an index, can't be written, is being written by another process, is damaged or
            newer than this version, or was built with another analysis, chunking or encoder.
        ModelFailure: The encoder failed. The index is unchanged, but the next build uses the vectors made so
            far.
    """
    started = time.perf_counter()
    described = None if encoder is None else describe_encoder(encoder)
    with ExitStack() as stack:
        documents: Iterator[Document | SkippedSource] = stack.enter_context(
            closing(read_documents(sources, leave_out=out, follow_links=follow_links, limits=limits))
        )
        if analysis is None:
            analysis, documents = _default_analysis(out, documents)
        transaction = stack.enter_context(open_transaction(out, analysis, described, chunking))
        build = _Build(transaction, progress)
        for item in documents:
            build.process(item)
        if not build.num_documents:
            raise _nothing_to_index(sources, build)
        build.remove_missing(sources)
        if encoder is not None:
            asyncio.run(build.encode(encoder))
        manifest = build.finish()
    return BuildReport(
        folder=out,
        documents=manifest.documents,
        passages=manifest.passages,
        **{name: build.outcomes[name] for name in _OUTCOMES},
        skipped=tuple(build.skipped),
        seconds=time.perf_counter() - started,
        encoded=build.num_encoded,
        hidden=tuple(build.hidden),
    )


def _default_analysis(
    folder: Path, documents: Iterator[Document | SkippedSource]
) -> tuple[Analysis, Iterator[Document | SkippedSource]]:
    """Return the analysis of the index in `folder` or, if there is none, that of the documents' language.

    The language is detected in the beginnings of the first 100 documents. The second value yields all
    documents, including those that were read for this.
    """
    if (folder / MANIFEST).exists():
        return read_manifest(folder).analysis, documents
    first = list(islice(documents, _SAMPLED_DOCUMENTS))
    texts = (each.text[:_SAMPLED_CHARACTERS] for each in first if isinstance(each, Document))
    return Analysis(language=detect_language(texts)), chain(first, documents)


@dataclass(frozen=True, slots=True)
class Removal:
    """The removal of the document with the id `id` in the index, if its path is `path` or `path` is None."""

    id: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class FilteredRemoval:
    """The removal of the documents that pass a filter and whose path is `path`; None stands for any path."""

    where: Filter
    path: str | None = None


Change = Document | Removal | FilteredRemoval


def change_documents(
    folder: Path, changes: Sequence[Change], *, encoder: Encoder | None = None
) -> list[tuple[str, str]]:
    """Add, replace and remove single documents of an existing index, in one step.

    A document replaces the document with the same id and path. If another document has its id, it gets the id
    "ID~2", "ID~3" and so on. All other documents of the index stay. Either all changes are made, or none.

    Args:
        encoder: The encoder that made the vectors; required if the index has vectors.

    Returns:
        For each document, its id in the index, and "added", "updated", "unchanged", "removed" or, if the
        document to remove does not exist, "unknown".

    Raises:
        DocumentError: No passage would be left in the index.
        BadIndex: See `build_index`.
        ModelFailure: The encoder failed. The index is unchanged.
    """
    analysis = read_manifest(folder).analysis
    with open_transaction(
        folder, analysis, None if encoder is None else describe_encoder(encoder)
    ) as transaction:
        build = _Build(transaction, None)
        outcomes = [outcome for change in changes for outcome in build.change(change)]
        if transaction.documents.summary()[1] == 0:
            raise DocumentError(
                f"the index {folder.name} would be empty, and an index needs a document: add another first."
            )
        if encoder is not None:
            asyncio.run(build.encode(encoder))
        build.finish()
    return outcomes


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


class _Build:
    """One run of a build, which processes documents and counts the outcomes."""

    def __init__(
        self, transaction: BuildTransaction, progress: Callable[[BuildProgress], None] | None
    ) -> None:
        self.num_documents = self.num_encoded = 0
        self.hidden: list[str] = []
        self.outcomes: Counter[str] = Counter()
        self.skipped: list[SkippedSource] = []
        self._transaction = transaction
        self._progress = progress
        self._num_passages = 0
        self._num_unsaved = 0

    def process(self, item: Document | SkippedSource) -> None:
        if isinstance(item, SkippedSource) and item.reason == HIDDEN:
            self.hidden.append(item.source)
        elif isinstance(item, SkippedSource):
            self.skipped.append(item)
        else:
            # Checkpoints are written only between documents, so that index and document table agree.
            self._checkpoint_after(CHECKPOINT_PASSAGES)
            self.num_documents += 1
            self.outcomes[self._add_or_update(item)] += 1
        self._report(item.source)

    def change(self, change: Change) -> list[tuple[str, str]]:
        """Make a change, and return the ids of the documents with the outcomes (see `change_documents`)."""
        if isinstance(change, Document):
            return [self._put(change)]
        documents = self._transaction.documents
        if isinstance(change, Removal):
            entry = documents.with_id(change.id, change.path)
            if entry is None:
                return [(change.id, "unknown")]
            entries = [entry]
        else:
            selected = np.flatnonzero(FieldColumns(documents).select(change.where).is_selected)
            entries = [documents.numbered(number) for number in selected.tolist()]
            entries = [entry for entry in entries if change.path in (None, entry.path)]
        for entry in entries:
            self._remove(entry)
            self.outcomes["removed"] += 1
        return [(entry.id, "removed") for entry in entries]

    def _put(self, change: Document) -> tuple[str, str]:
        documents = self._transaction.documents
        digest, entry = content_digest(change), documents.at(change.path, change.id)
        if entry is not None and entry.digest == digest:
            return entry.id, "unchanged"
        id, outcome = self._store(change, digest, entry)
        self.outcomes[outcome] += 1
        return id, outcome

    def remove_missing(self, sources: Sequence[Path]) -> None:
        kept = {skipped.path for skipped in self.skipped if skipped.path}
        places = (absolute_path(spelled(source)) for source in sources)
        for entry in self._transaction.documents.not_seen(places, kept):
            self._remove(entry)
            self.outcomes["removed"] += 1

    async def encode(self, encoder: Encoder) -> None:
        """Embed all passages in the index that have no vector, including passages from earlier builds.

        Raises:
            ModelFailure: The encoder failed, or returned vectors that are not of length 1.
            OSError: The vectors can't be written.
            DamagedIndex: Passages are missing from the lexical index.
        """
        writer = self._transaction.vectors
        assert writer is not None  # a transaction with an encoder has a vector writer
        to_encode = self._transaction.documents.num_not_encoded()
        if not to_encode:
            return
        self._transaction.checkpoint()
        self._num_unsaved = 0
        # Don't assign the batches to a name: if the encoder fails, their query must not outlive the table.
        for batch in _batches(
            self._transaction.documents.not_encoded(), self._transaction.lexical.committed()
        ):
            self._checkpoint_after(CHECKPOINT_VECTORS)
            embedded = await encoder.embed([passage.titled_text for passage, _ in batch], "passage")
            vectors = validate_vectors(embedded, len(batch), writer.dimensions, encoder.name)
            for row, (_, document) in enumerate(batch):
                writer.add(vectors[row : row + 1], document)
            self.num_encoded += len(batch)
            self._num_unsaved += len(batch)
            self._report("encoding", to_encode)

    def finish(self) -> Manifest:
        """Publish the changes, if there are any, and return the manifest of the index."""
        transaction = self._transaction
        has_changed = transaction.is_resumed or self.num_encoded or self.outcomes.keys() & _CHANGES
        base = transaction.base
        if base and not has_changed and (base.encoder is None) == (transaction.vectors is None):
            return base
        return transaction.publish()

    def _checkpoint_after(self, num_passages: int) -> None:
        if self._num_unsaved >= num_passages:
            self._transaction.checkpoint()
            self._num_unsaved = 0

    def _report(self, source: str, to_encode: int = 0) -> None:
        if self._progress:
            counts = self.num_documents, self._num_passages, len(self.skipped), self.num_encoded, to_encode
            self._progress(BuildProgress(source, *counts))

    def _add_or_update(self, document: Document) -> str:
        digest = content_digest(document)
        documents = self._transaction.documents
        entry = documents.find(document, digest)
        if entry is None:
            return self._store(document, digest, None)[1]
        is_seen = documents.is_seen(entry)
        has_moved = entry.path != document.path and not is_seen and not Path(entry.path).exists()
        if entry.digest == digest and not has_moved:
            documents.mark_seen(entry.number)
            return "duplicates" if is_seen else "unchanged"
        return self._store(document, digest, entry)[1]

    def _store(self, document: Document, digest: bytes, entry: DocumentEntry | None) -> tuple[str, str]:
        """Add a document, in place of `entry` if there is one, and return its id and the outcome."""
        if entry is None:
            id, number, outcome = self._transaction.documents.free_id(document.id), None, "added"
        else:
            self._remove(entry)
            id, number, outcome = entry.id, entry.number, "updated"
        named = dataclasses.replace(document, id=id)
        passages = tuple(cut_passages(named, self._transaction.chunking))
        added = self._transaction.documents.add(document, id, digest, len(passages), number)
        self._transaction.lexical.add(id, passages, *added)
        self._num_passages += len(passages)
        self._num_unsaved += len(passages)
        return id, outcome

    def _remove(self, entry: DocumentEntry) -> None:
        self._transaction.lexical.remove(entry.id)
        self._transaction.documents.remove(entry)


def _batches(
    documents: Iterator[DocumentEntry], lexical: LexicalIndex
) -> Iterator[list[tuple[Passage, DocumentEntry | None]]]:
    """Yield batches of at most 256 passages, in order.

    The last passage of each document is paired with the entry of the document, and all others with None.

    Raises:
        DamagedIndex: The lexical index lacks passages that the document table lists.
    """
    batch: list[tuple[Passage, DocumentEntry | None]] = []
    for document in documents:
        passages = lexical.passages_of(document.id)
        for number in range(1, document.passages + 1):
            id = passage_id(document.id, number, document.passages)
            if id not in passages:
                raise DamagedIndex(f"passage {id!r} is not in the lexical index")
            batch.append((passages[id], document if number == document.passages else None))
            if len(batch) == _PASSAGES_AT_ONCE:
                yield batch
                batch = []
    if batch:
        yield batch


def _nothing_to_index(sources: Sequence[Path], build: _Build) -> NothingIndexed:
    named = ", ".join(map(str, sources)) or "no files at all"
    counts = [f"{len(build.skipped)} skipped"] * bool(build.skipped)
    counts += [f"{len(build.hidden)} hidden"] * bool(build.hidden)
    found = f" ({', '.join(counts)})" if counts else ""
    lines = "".join(f"\n  {each.source}: {each.reason}" for each in build.skipped)
    return NothingIndexed(
        f"nothing to index in {named}{found}: give files with text, of the kinds {' '.join(READERS)}.{lines}"
    )
