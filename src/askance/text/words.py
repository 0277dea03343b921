"""Words, function words, and words as groups of tokens."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.types import Token

WORD = re.compile(r"\w+(?:['’\-.]\w+)*")
"""Letters and digits, with inner hyphens, apostrophes and points."""

FUNCTION_WORDS = frozenset(
    """
    a about above after again against all also am an and any are as at be because been before being below
    between both but by can could did do does doing down during each either few for from further had has have
    having he her here hers herself him himself his how i if in into is it its itself just may me might more
    most must my myself neither no nor not now of off on once only or other our ours ourselves out over own
    same shall she should so some such than that the their theirs them themselves then there these they this
    those through thus to too under until up upon us very was we were what when where which while who whom
    whose why will with within without would yes yet you your yours yourself yourselves
    """.split()
)
"""English words that carry no content of their own."""


def words(text: str) -> tuple[str, ...]:
    """The words of `text`: letters and digits, with inner hyphens, apostrophes and points."""
    return tuple(WORD.findall(text))


def content_words(text: str) -> frozenset[str]:
    """The distinct words that carry content, in lower case, without possessive endings."""
    lowered = (word.lower().removesuffix("'s").removesuffix("’s") for word in words(text))
    return frozenset(word for word in lowered if word not in FUNCTION_WORDS)


@dataclass(frozen=True, slots=True)
class TokenWord:
    """A white-space-delimited word of generated text and the tokens that write it: `tokens[first:last]`.

    A token that crosses a word boundary belongs to both words; one without text, to the word it begins.
    """

    text: str
    start: int
    end: int
    first: int
    last: int


def token_words(tokens: Sequence[Token]) -> tuple[TokenWord, ...]:
    """Group tokens into words by their character offsets, whatever the tokenizer's space marker."""
    if not tokens:
        return ()
    text, origin = "".join(token.text for token in tokens), tokens[0].start
    found = []
    first = last = 0
    for match in re.finditer(r"\S+", text):
        start, end = match.start() + origin, match.end() + origin
        while tokens[first].end <= start and tokens[first].start < start:
            first += 1
        last = max(last, first)
        while last < len(tokens) and tokens[last].start < end:
            last += 1
        found.append(TokenWord(match.group(), start, end, first, last))
        first = last - 1
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PieceWord:
    """Vocabulary pieces that the DRAGIN authors' code takes for one word: `pieces[first:last]`."""

    text: str
    first: int
    last: int


def piece_words(
    pieces: Sequence[str], space_marker: str, *, begins: Sequence[bool] = ()
) -> tuple[PieceWord, ...]:
    """Group vocabulary pieces into words as the DRAGIN authors' code does, by their space marker.

    A word's text is its raw pieces without the marker, so other byte-level characters stay encoded. With a
    marker that the tokenizer does not use, all pieces are one word.

    Args:
        begins: places, beside those of the marker, where a word begins whatever its piece.
    """
    starts = [
        at
        for at, piece in enumerate(pieces)
        if at == 0 or piece.startswith(space_marker) or (at < len(begins) and begins[at])
    ]
    return tuple(
        PieceWord("".join(pieces[first:last]).replace(space_marker, ""), first, last)
        for first, last in zip(starts, [*starts[1:], len(pieces)], strict=False)
    )
