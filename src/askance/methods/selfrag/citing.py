"""The text of a path, and what its sentences cite."""

from typing import Literal

from askance.core.types import Citation, Hit
from askance.methods.selfrag.segments import Path, Segment
from askance.methods.selfrag.tokens import IRRELEVANT, UNSUPPORTED, without_tokens
from askance.text.sentences import sentence_spans


def cited(path: Path, which: Literal["each_sentence", "last_sentence"]) -> tuple[str, tuple[Citation, ...]]:
    """The answer on one line, and its citations in order.

    A segment cites the passage that it was written with, unless that was judged irrelevant or not to support
    it; so does one that continues to use it. Passages are numbered in the order of their first citation,
    from 1.
    """
    text, citations = "", list[Citation]()
    numbers: dict[str, int] = {}
    for segment in path.segments:
        piece = without_tokens(segment.text)
        if not piece:
            continue
        text += (" " if text else "") + piece
        hit = _evidence(segment)
        if hit is not None:
            number = numbers.setdefault(hit.passage.id, len(numbers) + 1)
            spans = sentence_spans(piece)
            start = len(text) - len(piece)
            for first, last in spans if which == "each_sentence" else spans[-1:]:
                citations.append(Citation(number, hit.passage, start + first, start + last))
    return text, tuple(citations)


def _evidence(segment: Segment) -> Hit | None:
    if segment.labels & {IRRELEVANT, UNSUPPORTED}:
        return None
    return segment.hit
