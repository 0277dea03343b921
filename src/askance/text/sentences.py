"""Sentence boundaries, by the rules of `sentencex`: initials, abbreviations and decimals do not end one."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from askance.core.types import Cut, Token


def sentence_spans(text: str, language: str = "en") -> tuple[tuple[int, int], ...]:
    """The sentences of `text` as character offsets (start, end), without the white space around them."""
    from sentencex import get_sentence_boundaries

    spans = []
    for boundary in get_sentence_boundaries(language, text):
        piece = text[boundary["start_index"] : boundary["end_index"]]
        if piece.strip():
            start = boundary["start_index"] + len(piece) - len(piece.lstrip())
            spans.append((start, start + len(piece.strip())))
    return tuple(spans)


def sentences(text: str) -> tuple[str, ...]:
    """The sentences of `text`, stripped."""
    return tuple(text[start:end] for start, end in sentence_spans(text))


def first_sentence_end(text: str, min_chars: int = 0) -> int | None:
    """The offset behind the first sentence, or None while no other has begun with a letter or digit.

    Waiting for the next sentence's beginning is what tells "D.C." inside a sentence from its end. A sentence
    that ends before `min_chars` is joined to the next.
    """
    spans = sentence_spans(text)
    for (_, end), (next_start, next_end) in pairwise(spans):
        if end >= min_chars and any(character.isalnum() for character in text[next_start:next_end]):
            return end
    return None


@dataclass(frozen=True, slots=True)
class SentenceEnd:
    """Ends a generation with its first complete sentence. The cut falls on the next token boundary.

    `min_chars`: no cut before this many characters from the start of the generation.
    """

    min_chars: int = 5

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        text = "".join(token.text for token in tokens)
        end = first_sentence_end(text, self.min_chars)
        if end is None:
            return None
        return Cut(sum(token.start < end for token in tokens), "sentence")
