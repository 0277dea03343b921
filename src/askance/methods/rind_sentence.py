"""RIND in our reading: the first word with content that a complete sentence is in doubt about."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from askance.core.trace import WordSignal
from askance.core.types import Generation, Token
from askance.methods.looking import Look
from askance.methods.rind import Doubt
from askance.text.linguistics import Linguistics
from askance.text.words import TokenWord, token_words

if TYPE_CHECKING:
    from askance.methods.dragin import Dragin


@dataclass(frozen=True, slots=True)
class Judged:
    """A sentence, a number for each of its words, and where in it a search is due.

    Attributes:
        values: 0 for words without content.
        at: offset of the doubtful word, or the end of the text where a search is due whatever it says; None
            for no search.
    """

    text: str
    words: tuple[TokenWord, ...]
    values: tuple[float, ...]
    hits: tuple[bool, ...]
    at: int | None

    @property
    def is_whole(self) -> bool:
        """Whether all of the text stays."""
        return self.at == len(self.text)

    @property
    def kept(self) -> str:
        """What stays before the search. Never cut behind white space, after which models write oddly."""
        return self.text if self.is_whole else self.text[: self.at].rstrip()

    def word_signals(self) -> tuple[WordSignal, ...]:
        """The words as a trace shows them."""
        texts = (word.text for word in self.words)
        return tuple(map(WordSignal, texts, self.values, self.hits))

    def doubt(self) -> Doubt:
        """The same for the query formulations."""
        return Doubt(self.kept.strip(), tuple(word.text for word in self.words), self.values, self.hits)


def judge(dragin: "Dragin", written: Generation, look: Look | None, *, is_over: bool) -> Judged:
    """Hold every word with content against the threshold.

    Args:
        look: None where the trigger needs no attention.
        is_over: nothing follows this sentence; it is not searched for just because one is due.
    """
    words = token_words(written.tokens)
    if dragin.trigger in ("every_sentence", "every_tokens"):
        none = (False,) * len(words)
        return Judged(written.text, words, (0.0,) * len(words), none, None if is_over else len(written.text))
    with_content = places_with_content(words, written.text, dragin.linguistics)
    scores = _scores(dragin, written, [words[at] for at in with_content], look)
    values = [0.0] * len(words)
    for at, score in zip(with_content, scores, strict=True):
        values[at] = score
    hits = tuple(at in with_content and value > dragin.theta for at, value in enumerate(values))
    first = next((word.start for word, hit in zip(words, hits, strict=True) if hit), None)
    return Judged(written.text, words, tuple(values), hits, first)


def places_with_content(words: Sequence[TokenWord], text: str, linguistics: Linguistics) -> list[int]:
    """Which of the words of `text` share a character with one that has content."""
    spans = linguistics.content_words(text)
    return [
        at
        for at, word in enumerate(words)
        if any(start < word.end and word.start < end for start, end in spans)
    ]


def _scores(
    dragin: "Dragin", written: Generation, words: Sequence[TokenWord], look: Look | None
) -> list[float]:
    tokens = [written.tokens[word.first : word.last] for word in words]
    if dragin.trigger == "token_probability" or look is None:
        return [max(1 - math.exp(token.logprob or 0.0) for token in each) for each in tokens]
    doubts = [float(np.mean([_doubt(token) for token in each])) for each in tokens]
    influences = [look.influence(word.start, word.end, dragin.heads) for word in words]
    return [doubt * influence for doubt, influence in zip(doubts, influences, strict=True)]


def _doubt(token: Token) -> float:
    """Entropy, or, from a model that does not tell it, the surprise at the token written. In nats."""
    return token.entropy if token.entropy is not None else -(token.logprob or 0.0)
