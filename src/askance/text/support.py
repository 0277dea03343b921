"""Which passage supports which sentence, judged by shared words."""

from collections.abc import Sequence

from askance.core.types import Citation, Hit
from askance.text.sentences import sentence_spans
from askance.text.words import content_words


def cite(
    text: str, shown: Sequence[tuple[int, Sequence[Hit]]], least_share: float = 0.5
) -> tuple[Citation, ...]:
    """Cite, for each sentence of `text`, the passage that holds most of its content words.

    This is evidence by shared words, not a proof of entailment: a sentence is cited only when a passage the
    model had before it holds at least two of its content words, and at least `least_share` of them.

    Args:
        text: the whole answer.
        shown: (offset, hits) in order: from this character on, these were the passages in the prompt.
        least_share: from 0 to 1.

    Returns:
        Citations in order of the text; passages are numbered in order of their first citation, from 1.
    """
    numbers: dict[str, int] = {}
    found = []
    for start, end in sentence_spans(text):
        best = _best(text[start:end], _shown_within(start, end, shown), least_share)
        if best is not None:
            number = numbers.setdefault(best.passage.id, len(numbers) + 1)
            found.append(Citation(number, best.passage, start, end))
    return tuple(found)


def _shown_within(start: int, end: int, shown: Sequence[tuple[int, Sequence[Hit]]]) -> list[Hit]:
    """What was in the prompt while the text from `start` to `end` was written: the latest first, by rank."""
    before = [hits for offset, hits in shown if offset <= start][-1:]
    later = [hits for offset, hits in shown if start < offset < end]
    return [hit for hits in reversed([*before, *later]) for hit in sorted(hits, key=lambda hit: hit.rank)]


def _best(sentence: str, hits: Sequence[Hit], least_share: float) -> Hit | None:
    wanted = content_words(sentence)
    held = [(len(wanted & content_words(f"{h.passage.title} {h.passage.text}")), h) for h in hits]
    num_held, best = max(held, key=lambda entry: entry[0], default=(0, None))
    return best if num_held >= max(2, least_share * len(wanted)) else None
