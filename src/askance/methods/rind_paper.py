"""The triggers as the DRAGIN paper has them: token by token, at which one a sentence is in doubt."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from askance.core.trace import WordSignal
from askance.core.types import Cut, Generation, Token, Want
from askance.methods.looking import Heads, over_heads
from askance.methods.rind import Doubt
from askance.text.sentences import SentenceEnd
from askance.text.words import FUNCTION_WORDS, TokenWord, token_words

if TYPE_CHECKING:
    from askance.methods.dragin import Dragin


@dataclass(frozen=True, slots=True)
class Stretch:
    """A sentence, or some tokens, with a number for each token.

    Attributes:
        hits: which of the numbers are above the threshold.
        at: the token at which a search is due; None for no search.
    """

    written: Generation
    words: tuple[TokenWord, ...]
    values: tuple[float, ...]
    hits: tuple[bool, ...]
    at: int | None

    @property
    def kept_tokens(self) -> tuple[Token, ...]:
        """Those before the search."""
        return self.written.tokens[: self.at]

    @property
    def kept(self) -> str:
        """The text before the search."""
        return "".join(self.written.text[token.start : token.end] for token in self.kept_tokens)

    def word_signals(self) -> tuple[WordSignal, ...]:
        """Each word with its greatest number; one with a token above the threshold is a hit."""
        return tuple(
            WordSignal(
                word.text, max(self.values[word.first : word.last]), any(self.hits[word.first : word.last])
            )
            for word in self.words
        )

    def doubt(self) -> Doubt:
        """The same for the query formulations."""
        signals = self.word_signals()
        words, scores = tuple(s.text for s in signals), tuple(s.value for s in signals)
        return Doubt(self.kept.strip(), words, scores, tuple(s.is_hit for s in signals))


@dataclass(frozen=True, slots=True)
class SentenceFollowed:
    """Ends a generation like `SentenceEnd`, one token later: the attention to a sentence's last token is
    known once the token after it has been fed.
    """

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        return SentenceEnd()(tokens[:-1])


def want(dragin: "Dragin") -> Want:
    is_improbable = dragin.trigger == "token_probability"
    return Want(logprob=is_improbable, entropy=dragin.trigger == "rind", attention=dragin.attention)


def judge(dragin: "Dragin", written: Generation, *, is_over: bool, may_start: bool) -> Stretch:
    tokens, words = written.tokens, token_words(written.tokens)
    values = _values(dragin, written, words)
    hits = tuple(value > dragin.theta for value in values)
    if dragin.trigger in ("every_sentence", "every_tokens"):
        return Stretch(written, words, values, hits, None if is_over else len(tokens))
    above = (at for at, is_hit in enumerate(hits) if is_hit and (at or may_start))
    return Stretch(written, words, values, hits, next(above, None))


def _values(dragin: "Dragin", written: Generation, words: Sequence[TokenWord]) -> tuple[float, ...]:
    """Of each kept token, the number that the trigger looks at."""
    tokens = written.tokens
    if dragin.trigger == "token_probability":
        return tuple(1 - math.exp(token.logprob or 0.0) for token in tokens)
    if dragin.trigger != "rind":
        return (0.0,) * len(tokens)
    stops = {at for word in words if _is_stopword(word.text) for at in range(word.first, word.last)}
    return tuple(
        0.0 if at in stops else (token.entropy or 0.0) * most_attention(written, at, dragin.heads)
        for at, token in enumerate(tokens)
    )


def most_attention(written: Generation, at: int, heads: Heads) -> float:
    """The greatest attention that a later token pays to token `at`; 0 while none has been fed."""
    later = (*written.tokens, *written.dropped)[at + 1 :]
    column = written.prompt_tokens + at
    rows = (over_heads(token.attention, heads) for token in later if token.attention is not None)
    return max((float(row[column]) for row in rows), default=0.0)


def _is_stopword(word: str) -> bool:
    return word.strip(".,;:!?\"'()").lower() in FUNCTION_WORDS
