"""Sentence boundaries, by the rules of `sentencex`: initials, abbreviations and decimals do not end one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from askance.core.panics import panics_as
from askance.core.types import Cut, Token

_UNSAFE = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]")
"""White space outside ASCII, in which sentencex cuts characters apart and panics, and halves of characters,
which it does not take."""
_PLAIN_BOUNDARY = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n\s*\n")


def sentence_spans(text: str) -> tuple[tuple[int, int], ...]:
    """The sentences of `text` as character offsets (start, end), without the white space around them."""
    spans = []
    for begin, end in pairwise((0, *_ends(text))):
        piece = text[begin:end]
        if piece.strip():
            start = begin + len(piece) - len(piece.lstrip())
            spans.append((start, start + len(piece.strip())))
    return tuple(spans)


def _ends(text: str) -> list[int]:
    """Where the pieces of `text` end, by sentencex; by `_PLAIN_BOUNDARY` where that fails."""
    from sentencex import get_sentence_boundaries

    # Each unsafe character is replaced by one character, so that all offsets stay what they are.
    safe = _UNSAFE.sub(lambda unsafe: " " if unsafe[0].isspace() else "\ufffd", text)
    try:
        with panics_as(ValueError):
            ends = [boundary["end_index"] for boundary in get_sentence_boundaries("en", safe)]
    except ValueError:
        ends = []
    holds_all = ends[-1:] == [len(text)] and ends == sorted(ends)
    return ends if holds_all else [*(each.end() for each in _PLAIN_BOUNDARY.finditer(text)), len(text)]


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


@dataclass(frozen=True, slots=True)
class SentenceFollowed:
    """Ends a generation like `SentenceEnd`, one token later: the attention to a sentence's last token is
    known once the token after it has been fed.
    """

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        return SentenceEnd()(tokens[:-1])
