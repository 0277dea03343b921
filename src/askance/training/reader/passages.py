"""The passages of a lesson: what supports the answer, among what does not, as a search would show them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.types import Hit, Passage
from askance.evaluation.datasets.example import Paragraph
from askance.text.answers import sentence_spans

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Showing:
    """How passages are shown in lessons.

    Attributes:
        words: most words of a passage. A longer paragraph is cut between sentences, never in its evidence.
        most: most passages of a lesson.
    """

    words: int = 100
    most: int = 5


def fitted(paragraph: Paragraph, words: int) -> Paragraph | None:
    """The paragraph, or as many whole sentences of it as fit, with all of its evidence.

    None where the evidence alone is longer: a lesson must not ask for what the passage no longer says.
    """
    if len(paragraph.text.split()) <= words:
        return paragraph
    spans = sentence_spans(paragraph.text)
    kept = _kept(paragraph, spans, words)
    if not kept:
        return None
    start, end = spans[kept.start][0], spans[kept.stop - 1][1]
    evidence = tuple((first - start, last - start) for first, last in _inside(paragraph.evidence, start, end))
    return Paragraph(paragraph.title, paragraph.text[start:end], evidence)


def _kept(paragraph: Paragraph, spans: Sequence[Span], words: int) -> range:
    """Which sentences: those with evidence, then more behind and before them while they fit."""

    def num_words(kept: range) -> int:
        return len(paragraph.text[spans[kept.start][0] : spans[kept.stop - 1][1]].split()) if kept else 0

    needed = [
        at
        for at, (start, end) in enumerate(spans)
        if any(first < end and last > start for first, last in paragraph.evidence)
    ]
    kept = range(needed[0], needed[-1] + 1) if needed else range(1)
    if num_words(kept) > words:
        return range(0)
    while kept.stop < len(spans) and num_words(range(kept.start, kept.stop + 1)) <= words:
        kept = range(kept.start, kept.stop + 1)
    while kept.start > 0 and num_words(range(kept.start - 1, kept.stop)) <= words:
        kept = range(kept.start - 1, kept.stop)
    return kept


def _inside(evidence: Sequence[Span], start: int, end: int) -> list[Span]:
    """Spans clipped to the white space that was cut off around the sentences."""
    return [(max(first, start), min(last, end)) for first, last in evidence]


def as_hits(paragraphs: Sequence[Paragraph]) -> tuple[Hit, ...]:
    """Paragraphs as the hits of a search, in this order."""
    return tuple(
        Hit(Passage(f"{number}", paragraph.title, paragraph.text), 0.0, number)
        for number, paragraph in enumerate(paragraphs, start=1)
    )


def among_distractors(
    needed: Sequence[Paragraph], others: Sequence[Paragraph], showing: Showing, random_: random.Random
) -> tuple[Hit, ...] | None:
    """The `needed` paragraphs and a random number of `others`, shuffled; None where a needed one does not
    fit.

    The best passages stand first or last in a prompt, as the method has it: any place must do.
    """
    kept = [fitted(paragraph, showing.words) for paragraph in needed]
    if any(paragraph is None for paragraph in kept):
        return None
    room = max(0, showing.most - len(kept))
    chosen = random_.sample(list(others), min(len(others), random_.randint(min(1, room), room)))
    shown = [
        paragraph for paragraph in (*kept, *(fitted(other, showing.words) for other in chosen)) if paragraph
    ]
    random_.shuffle(shown)
    return as_hits(shown)
