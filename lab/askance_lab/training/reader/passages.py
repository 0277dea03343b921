"""The passages of a training example: supporting passages among distractors, as in search results."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.types import Hit, Passage
from askance.evaluation.datasets.example import Paragraph
from askance.text.answers import sentence_spans

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PassageLimits:
    """The limits on the passages of a training example.

    Attributes:
        max_words: The greatest number of words in a passage. A longer paragraph is cut between two sentences,
            but never within its evidence.
        max_passages: The greatest number of passages in an example.
    """

    max_words: int = 100
    max_passages: int = 5


def shortened(paragraph: Paragraph, max_words: int) -> Paragraph | None:
    """Return the paragraph, shortened to as many sentences as fit, including all of its evidence.

    The result is None if the evidence alone is too long, because an example must not ask for an answer that
    its passage no longer supports.
    """
    if len(paragraph.text.split()) <= max_words:
        return paragraph
    spans = sentence_spans(paragraph.text)
    kept = _kept_sentences(paragraph, spans, max_words)
    if not kept:
        return None
    start, end = spans[kept.start][0], spans[kept.stop - 1][1]
    evidence = tuple(
        (max(first, start) - start, min(last, end) - start) for first, last in paragraph.evidence
    )
    return Paragraph(paragraph.title, paragraph.text[start:end], evidence)


def _kept_sentences(paragraph: Paragraph, spans: Sequence[Span], max_words: int) -> range:
    """Return the range of sentences to keep, which is empty if the sentences with evidence are too long.

    The range covers all sentences with evidence, and as many following and then preceding ones as fit.
    """

    def num_words(kept: range) -> int:
        return len(paragraph.text[spans[kept.start][0] : spans[kept.stop - 1][1]].split()) if kept else 0

    needed = [
        index
        for index, (start, end) in enumerate(spans)
        if any(first < end and last > start for first, last in paragraph.evidence)
    ]
    kept = range(needed[0], needed[-1] + 1) if needed else range(1)
    if num_words(kept) > max_words:
        return range(0)
    while kept.stop < len(spans) and num_words(range(kept.start, kept.stop + 1)) <= max_words:
        kept = range(kept.start, kept.stop + 1)
    while kept.start > 0 and num_words(range(kept.start - 1, kept.stop)) <= max_words:
        kept = range(kept.start - 1, kept.stop)
    return kept


def as_hits(paragraphs: Sequence[Paragraph]) -> tuple[Hit, ...]:
    """Return the paragraphs as search hits, in the given order."""
    return tuple(
        Hit(Passage(f"{rank}", paragraph.title, paragraph.text), 0.0, rank)
        for rank, paragraph in enumerate(paragraphs, start=1)
    )


def mix_with_distractors(
    needed: Sequence[Paragraph], others: Sequence[Paragraph], limits: PassageLimits, rng: random.Random
) -> tuple[Hit, ...] | None:
    """Return the `needed` paragraphs, mixed in random order with a random number of the `others`.

    The result is None if the evidence of a needed paragraph does not fit. Methods put the best passages first
    or last, so the model must learn to use passages in any position.
    """
    kept = [shortened(paragraph, limits.max_words) for paragraph in needed]
    if any(paragraph is None for paragraph in kept):
        return None
    room = max(0, limits.max_passages - len(kept))
    distractors = rng.sample(list(others), min(len(others), rng.randint(min(1, room), room)))
    short_distractors = (shortened(distractor, limits.max_words) for distractor in distractors)
    paragraphs = [paragraph for paragraph in (*kept, *short_distractors) if paragraph]
    rng.shuffle(paragraphs)
    return as_hits(paragraphs)
