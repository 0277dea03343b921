"""Building an index: documents in, passages indexed and encoded, and only what changed is touched."""

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from askance.core.errors import DocumentError, InputError
from askance.core.ports import Encoder
from askance.core.types import Passage
from askance.retrieval.index.documents import Document, Skipped, place_of, read_documents
from askance.retrieval.index.draft import Draft, open_draft
from askance.retrieval.index.formats import READERS
from askance.retrieval.index.ledger import Damaged, LedgerEntry, digest_of
from askance.retrieval.index.lexical import Analysis, LexicalIndex
from askance.retrieval.index.passages import cut_passages, passage_id
from askance.retrieval.index.store import EncoderNote, Manifest
from askance.retrieval.index.vectors import checked

CHECKPOINT_PASSAGES = 100_000
CHECKPOINT_VECTORS = 5_000
_PASSAGES_AT_ONCE = 256
_OUTCOMES = ("added", "updated", "unchanged", "removed", "duplicates")
_CHANGES = {"added", "updated", "removed"}


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build is. `source` is the file being read; `passages` counts those written in this run.

    Once all is read, `encoded` counts those that got vectors, of `to_encode`.
    """

    source: str
    documents: int
    passages: int
    skipped: int
    encoded: int = 0
    to_encode: int = 0


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did. `documents` and `passages` are what the index holds now.

    Attributes:
        unchanged: documents that the index had already; those that an interrupted build had written count.
        duplicates: documents met twice in this run, with the same id and content.
        encoded: passages that got vectors in this run.
    """

    folder: Path
    documents: int
    passages: int
    added: int
    updated: int
    unchanged: int
    removed: int
    duplicates: int
    skipped: tuple[Skipped, ...]
    seconds: float
    encoded: int = 0

    def __str__(self) -> str:
        changes = {
            "added": self.added,
            "updated": self.updated,
            "removed": self.removed,
            "unchanged": self.unchanged,
            "duplicate": self.duplicates,
            "skipped": len(self.skipped),
            "passages encoded": self.encoded,
        }
        told = ", ".join(f"{count:,} {name}" for name, count in changes.items() if count)
        size = f"{self.passages:,} passages of {self.documents:,} documents"
        return f"{self.folder}: {size} ({told}) in {self.seconds:.1f} s"


def build_index(
    sources: Sequence[Path],
    out: Path,
    *,
    analysis: Analysis = Analysis(),
    encoder: Encoder | None = None,
    follow_links: bool = False,
    progress: Callable[[BuildProgress], None] | None = None,
) -> BuildReport:
    """Make the index folder `out` from files and folders, or bring it up to date.

    What is the same document as before, and what another one:

    - One with the id and content of a document in the index is that document. It is left alone, also when it
      is met in a second file; only if the first file is gone has it moved to the second.
    - One with the id and file of a document in the index, and other content, replaces it.
    - Any other is new. If its id is taken (by another file, or by an earlier row of its own), it gets the id
      "ID~2", "ID~3" and so on: nothing is overwritten.
    - A document that `sources` no longer contain is removed if its file is among them, or in one of their
      folders. Those of other files stay, and so do those of a file that had to be skipped this time.

    The old index stays in use until the new one is complete; an interruption, by whatever means, leaves the
    old one. Every 100,000 passages, and every 5,000 vectors, a checkpoint is kept, from which the next build
    goes on.

    Args:
        encoder: makes a vector of each passage, for those that have none yet. An index with vectors can only
            be brought up to date with the encoder that made them.
        follow_links: read files outside the folders of `sources` that links in them lead to. Without it they
            are skipped, and removed if an earlier build read them.
        progress: called after every document, and while passages are encoded.

    Raises:
        DocumentError: a source that does not exist, a malformed row, or nothing in `sources` to index; the
            index, or its absence, is then what it was before.
        BadIndex: `out` is something else than an index, can't be written, is being written by another
            process, is damaged or newer than this version, or was built with another analysis or encoder.
        ModelFailure: the encoder broke; the index is what it was before, and what is encoded is kept for the
            next build.
        MissingExtra: the package that reads HTML files is not installed.
    """
    started = time.perf_counter()
    documents = read_documents(sources, leave_out=out, follow_links=follow_links)
    with open_draft(out, analysis, None if encoder is None else note_of(encoder)) as draft:
        build = _Build(draft, progress)
        for item in documents:
            build.take(item)
        if not build.num_documents:
            raise _nothing(sources, build.skipped)
        build.remove_vanished(sources)
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
    )


def note_of(encoder: Encoder) -> EncoderNote:
    """What an index remembers of an encoder.

    Raises:
        InputError: called inside a running event loop.
        ModelFailure: the encoder broke.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        none = asyncio.run(encoder.embed([], "passage"))
        return EncoderNote(encoder.name, encoder.fingerprint, int(none.shape[1]))
    raise InputError(
        "build_index was called with an encoder inside a running event loop: write "
        "`await asyncio.to_thread(build_index, …)` there."
    )


class _Build:
    """One run over the documents, and what became of them."""

    def __init__(self, draft: Draft, progress: Callable[[BuildProgress], None] | None) -> None:
        self.num_documents = self.num_encoded = 0
        self.outcomes: Counter[str] = Counter()
        self.skipped: list[Skipped] = []
        self._draft = draft
        self._progress = progress
        self._num_passages = 0
        self._num_unsaved = 0

    def take(self, item: Document | Skipped) -> None:
        if isinstance(item, Skipped):
            self.skipped.append(item)
        else:
            # Between two documents, so that index and ledger agree.
            self._checkpoint_after(CHECKPOINT_PASSAGES)
            self.num_documents += 1
            self.outcomes[self._enter(item)] += 1
        self._report(item.source)

    def remove_vanished(self, sources: Sequence[Path]) -> None:
        kept = {skipped.place for skipped in self.skipped if skipped.place}
        for entry in self._draft.ledger.vanished(map(place_of, sources), kept):
            self._remove(entry)
            self.outcomes["removed"] += 1

    async def encode(self, encoder: Encoder) -> None:
        """Make the vectors of passages that have none, whichever sources this or an earlier build was given.

        Raises:
            ModelFailure: the encoder broke, or gave something else than vectors of length 1.
            OSError: the vectors can't be written.
            Damaged: passages are missing in the lexical index.
        """
        writer = self._draft.vectors
        assert writer is not None  # a draft with an encoder has one
        to_encode = self._draft.ledger.num_not_encoded()
        if not to_encode:
            return
        self._draft.checkpoint()
        self._num_unsaved = 0
        # No name stands for the batches: an open query would outlive the ledger where the encoder breaks.
        for batch in _batches(self._draft.ledger.not_encoded(), self._draft.lexical.committed()):
            self._checkpoint_after(CHECKPOINT_VECTORS)
            found = await encoder.embed([passage.titled_text for passage, _ in batch], "passage")
            vectors = checked(found, len(batch), writer.dimensions, encoder.name)
            for row, (_, document) in enumerate(batch):
                writer.add(vectors[row : row + 1], document)
            self.num_encoded += len(batch)
            self._num_unsaved += len(batch)
            self._report("encoding", to_encode)

    def finish(self) -> Manifest:
        """Publish what changed; where nothing did, the index stays as it is."""
        draft = self._draft
        has_changed = draft.is_resumed or self.num_encoded or self.outcomes.keys() & _CHANGES
        if draft.base and not has_changed and (draft.base.encoder is None) == (draft.vectors is None):
            return draft.base
        return draft.publish()

    def _checkpoint_after(self, num_passages: int) -> None:
        if self._num_unsaved >= num_passages:
            self._draft.checkpoint()
            self._num_unsaved = 0

    def _report(self, source: str, to_encode: int = 0) -> None:
        if self._progress:
            counts = self.num_documents, self._num_passages, len(self.skipped), self.num_encoded, to_encode
            self._progress(BuildProgress(source, *counts))

    def _enter(self, document: Document) -> str:
        digest = digest_of(document)
        ledger = self._draft.ledger
        entry = ledger.find(document, digest)
        if entry is None:
            self._add(document, ledger.free_id(document.id), digest)
            return "added"
        is_met = ledger.is_met(entry)
        has_moved = entry.place != document.place and not is_met and not Path(entry.place).exists()
        if entry.digest == digest and not has_moved:
            ledger.meet(entry.number)
            return "duplicates" if is_met else "unchanged"
        self._remove(entry)
        self._add(document, entry.id, digest, entry.number)
        return "updated"

    def _add(self, document: Document, id: str, digest: bytes, number: int | None = None) -> None:
        passages = tuple(cut_passages(dataclasses.replace(document, id=id)))
        self._draft.lexical.add(id, passages)
        self._draft.ledger.add(document, id, digest, len(passages), number)
        self._num_passages += len(passages)
        self._num_unsaved += len(passages)

    def _remove(self, entry: LedgerEntry) -> None:
        self._draft.lexical.remove(entry.id)
        self._draft.ledger.remove(entry)


def _batches(
    documents: Iterator[LedgerEntry], lexical: LexicalIndex
) -> Iterator[list[tuple[Passage, LedgerEntry | None]]]:
    """The passages of documents in order, 256 at a time; with the last one of each comes the document.

    Raises:
        Damaged: the lexical index does not have all that the ledger says.
    """
    batch: list[tuple[Passage, LedgerEntry | None]] = []
    for document in documents:
        found = lexical.passages_of(document.id)
        for number in range(1, document.passages + 1):
            id = passage_id(document.id, number, document.passages)
            if id not in found:
                raise Damaged(f"passage {id!r} is not in the lexical index")
            batch.append((found[id], document if number == document.passages else None))
            if len(batch) == _PASSAGES_AT_ONCE:
                yield batch
                batch = []
    if batch:
        yield batch


def _nothing(sources: Sequence[Path], skipped: Sequence[Skipped]) -> DocumentError:
    named = ", ".join(map(str, sources)) or "no files at all"
    reasons = "; ".join(f"{each.source}: {each.reason}" for each in skipped[:3])
    told = f" ({len(skipped)} skipped: {reasons}{'; …' if len(skipped) > 3 else ''})" if skipped else ""
    return DocumentError(
        f"there is nothing to index in {named}{told}: give files of the kinds {' '.join(READERS)} with text."
    )
