"""Making the vectors of a draft: those passages are encoded that have none yet, and no others.

They are read from the lexical index, so it does not matter which sources a build was given, nor whether it
was interrupted.
"""

import asyncio
from collections.abc import Callable, Iterator

import numpy as np

from askance.core.errors import InputError
from askance.core.ports import Encoder
from askance.core.types import Passage
from askance.retrieval.draft import Draft
from askance.retrieval.lexical import LexicalIndex
from askance.retrieval.manifest import EncoderNote
from askance.retrieval.passages import passage_id
from askance.retrieval.places import Damaged, Encoded
from askance.retrieval.vectors import VectorWriter, checked

CHECKPOINT_PASSAGES = 5_000
_PASSAGES_AT_ONCE = 256
_MAX_SEGMENTS = 8

EncodingProgress = Callable[[int, int], None]
"""Is told how many passages are encoded, and how many there are to encode."""
_Batch = list[tuple[Encoded, list[Passage]]]


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


def text_of(passage: Passage) -> str:
    """What of a passage is encoded: its title and its text."""
    return f"{passage.title} {passage.text}".strip()


def encode_missing(draft: Draft, encoder: Encoder, progress: EncodingProgress) -> int:
    """Encode the passages of a draft that have no vectors; gives how many there were.

    Every 5,000 passages there is a checkpoint.

    Raises:
        ModelFailure: the encoder broke, or gave something else than vectors of length 1.
        OSError: the vectors can't be written.
        Damaged: passages are missing in the lexical index.
    """
    writer = draft.vectors
    assert writer is not None  # a draft with an encoder has one
    num_missing = draft.ledger.places.num_missing()
    if num_missing:
        draft.checkpoint()
        asyncio.run(_encode(draft, writer, encoder, lambda done: progress(done, num_missing)))
    return num_missing


def settle_segments(draft: Draft) -> None:
    """Make new rows of what is in use in segments that are mostly dead, or of the smallest of too many."""
    writer = draft.vectors
    assert writer is not None
    old = [each for each in draft.ledger.places.segments() if each.number != draft.generation]
    dead = [each for each in old if 2 * each.live < writer.num_rows_in(each.number)]
    others = sorted((each for each in old if each not in dead), key=lambda each: each.live)
    for segment in (*dead, *others[: max(0, len(others) - _MAX_SEGMENTS)]):
        writer.move(segment.number)


async def _encode(
    draft: Draft, writer: VectorWriter, encoder: Encoder, progress: Callable[[int], None]
) -> None:
    num_done = num_unsaved = 0
    for batch in _batches(draft):
        if num_unsaved >= CHECKPOINT_PASSAGES:
            draft.checkpoint_vectors()
            num_unsaved = 0
        num_encoded = await _encode_batch(batch, writer, encoder)
        num_done, num_unsaved = num_done + num_encoded, num_unsaved + num_encoded
        progress(num_done)


async def _encode_batch(batch: _Batch, writer: VectorWriter, encoder: Encoder) -> int:
    texts = [text_of(passage) for _, passages in batch for passage in passages]
    parts = []
    for first in range(0, len(texts), _PASSAGES_AT_ONCE):
        part = texts[first : first + _PASSAGES_AT_ONCE]
        found = await encoder.embed(part, "passage")
        parts.append(checked(found, len(part), writer.dimensions, encoder.name))
    vectors = np.concatenate(parts)
    first = 0
    for document, passages in batch:
        writer.add(document.number, vectors[first : first + len(passages)])
        first += len(passages)
    return len(texts)


def _batches(draft: Draft) -> Iterator[_Batch]:
    """Whole documents without vectors, about 256 passages of them at a time."""
    lexical = LexicalIndex(draft.lexical_folder)
    batch: _Batch = []
    after = 0
    while documents := draft.ledger.places.missing(after):
        for document in documents:
            after = document.number
            batch.append((document, _passages_of(document, lexical)))
            if sum(len(passages) for _, passages in batch) >= _PASSAGES_AT_ONCE:
                yield batch
                batch = []
    if batch:
        yield batch


def _passages_of(document: Encoded, lexical: LexicalIndex) -> list[Passage]:
    """In order.

    Raises:
        Damaged: the lexical index does not have all that the ledger says.
    """
    found = lexical.passages_of(document.id)
    ids = [passage_id(document.id, number, document.passages) for number in range(1, document.passages + 1)]
    missing = next((id for id in ids if id not in found), None)
    if missing is not None:
        raise Damaged(f"passage {missing!r} is not in the lexical index")
    return [found[id] for id in ids]
