"""RIND in the reading of the DRAGIN authors' code: which sentence of a draft has a word that is in doubt."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance.core.types import TokenIds
from askance.text.linguistics import Linguistics
from askance.text.words import PieceWord, piece_words

_LLAMA2_NEWLINE_ID = 13
_LLAMA2_END = "</s>"


@dataclass(frozen=True, slots=True)
class Weighed:
    """The words of a draft, each with the summed attention and mean entropy (nats) of its tokens."""

    words: tuple[str, ...]
    attention: tuple[float, ...]
    entropy: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Where a draft is to be written again.

    Attributes:
        kept: what of the draft stands before it.
        words: the words of the doubtful sentence.
        scores: the number of each, which was held against the threshold.
        hits: which of them are in doubt.
    """

    kept: str
    words: tuple[str, ...]
    scores: tuple[float, ...]
    hits: tuple[bool, ...]


def read_words(
    ids: TokenIds, pieces: Sequence[str], space_marker: str, *, after_end: bool = False
) -> tuple[PieceWord, ...]:
    """The words of `ids` as the authors' code finds them; two of its rules are constants of Llama 2.

    Args:
        after_end: a word begins after the end token, too. The code does so for drafts, not for queries.
    """
    begins = [id == _LLAMA2_NEWLINE_ID for id in ids]
    if after_end:
        previous = ["", *pieces]
        begins = [begin or previous[at] == _LLAMA2_END for at, begin in enumerate(begins)]
    return piece_words(pieces, space_marker, begins=begins)


def influence(weights: NDArray[np.float32], first_piece: str = "") -> NDArray[np.float64]:
    """How much each token is attended to, itself included: the greatest per head, then the mean over heads.

    Args:
        weights: shape [heads, queries, keys].
        first_piece: when it is Llama 2's end token, all is divided by the sum over the other tokens.
    """
    most: NDArray[np.float64] = weights.astype(np.float64).max(axis=1).mean(axis=0)
    return most / most[1:].sum() if len(most) > 1 and first_piece == _LLAMA2_END else most


def weigh(words: Sequence[PieceWord], attention: Sequence[float], entropies: Sequence[float]) -> Weighed:
    """Attention summed and entropy averaged over the tokens of each word."""
    return Weighed(
        tuple(word.text for word in words),
        tuple(float(np.sum(attention[word.first : word.last])) for word in words),
        tuple(float(np.mean(entropies[word.first : word.last])) for word in words),
    )


def align(sentences: Sequence[str], words: Sequence[str]) -> list[tuple[int, int]]:
    """The words of each sentence, as ranges.

    A sentence takes the shortest run of words whose text, joined by single spaces, contains it. One that is
    not found gets none, and its words fall to the next; the last takes what is left.
    """
    ranges, at = [], 0
    for sentence in sentences[:-1]:
        ends = (end for end in range(at + 1, len(words)) if sentence in " ".join(words[at:end]))
        end = next(ends, at)
        ranges.append((at, end))
        at = end
    return [*ranges, (at, len(words))] if sentences else []


def scores(weighed: Weighed, first: int, last: int) -> tuple[float, ...]:
    """Entropy times attention of the words `first` to `last`, relative to the mean attention among them."""
    attention = np.array(weighed.attention[first:last])
    if not attention.sum():
        return (0.0,) * (last - first)
    relative = attention / attention.sum() * np.array(weighed.entropy[first:last]) * (last - first)
    return tuple(relative.tolist())


def first_doubt(
    draft: str, weighed: Weighed, threshold: float, linguistics: Linguistics, *, real_words_only: bool
) -> Doubt | None:
    """The first sentence of `draft` with a word above `threshold`.

    With `real_words_only` only words that contain one with content remain hits; that comes after the sentence
    has been chosen, so that none may remain.
    """
    sentences = linguistics.sentences(draft)
    for at, (first, last) in enumerate(align(sentences, weighed.words)):
        values = scores(weighed, first, last)
        hits = [value > threshold for value in values]
        if any(hits):
            words = weighed.words[first:last]
            if real_words_only:
                real = linguistics.real_words(sentences[at])
                hits = [hit and has_content(word, real) for hit, word in zip(hits, words, strict=True)]
            return Doubt(" ".join(sentences[:at]), words, values, tuple(hits))
    return None


def has_content(word: str, real_words: frozenset[str]) -> bool:
    """Whether some content word is a part of `word`, in the same letter case."""
    return any(real in word for real in real_words)
