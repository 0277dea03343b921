"""The triggers as the DRAGIN paper has them: token by token, at which one a sentence is in doubt."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from askance.core.trace import WordSignal
from askance.core.types import Cut, Generation, Token, Want
from askance.methods.rind import Doubt
from askance.text.sentences import SentenceEnd
from askance.text.words import FUNCTION_WORDS, TokenWord, token_words

if TYPE_CHECKING:
    from askance.methods.dragin import Dragin


@dataclass(frozen=True, slots=True)
class Stretch:
    """A sentence, or some tokens, with a number for each token; a search is due at token `at`, or not."""

    written: Generation
    words: tuple[TokenWord, ...]
    values: tuple[float, ...]
    at: int | None

    @property
    def kept_tokens(self) -> tuple[Token, ...]:
        """Those before the search."""
        return self.written.tokens[: self.at]

    @property
    def kept(self) -> str:
        """The text before the search."""
        return "".join(token.text for token in self.kept_tokens)

    def word_signals(self) -> tuple[WordSignal, ...]:
        """Each word with its greatest number."""
        return tuple(
            WordSignal(word.text, max(self.values[word.first : word.last]), self._holds(word))
            for word in self.words
        )

    def doubt(self) -> Doubt:
        """The same for the query formulations."""
        signals = self.word_signals()
        words, scores = tuple(s.text for s in signals), tuple(s.value for s in signals)
        return Doubt(self.kept.strip(), words, scores, tuple(s.is_hit for s in signals))

    def _holds(self, word: TokenWord) -> bool:
        return self.at is not None and word.first <= self.at < word.last


@dataclass(frozen=True, slots=True)
class SentenceFollowed:
    """Ends a generation like `SentenceEnd`, one token later: the attention to a sentence's last token is
    known once the token after it has been fed.
    """

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        return SentenceEnd()(tokens[:-1])


def want(dragin: "Dragin") -> Want:
    attention = dragin.heads if dragin.trigger == "rind" or dragin.query == "real_words" else None
    is_improbable = dragin.trigger == "token_probability"
    return Want(logprob=is_improbable, entropy=dragin.trigger == "rind", attention=attention)


def judge(dragin: "Dragin", written: Generation, *, is_over: bool, may_start: bool) -> Stretch:
    tokens, words = written.tokens, token_words(written.tokens)
    values = _values(dragin, written, words)
    if dragin.trigger in ("every_sentence", "every_tokens"):
        return Stretch(written, words, values, None if is_over else len(tokens))
    above = (at for at, value in enumerate(values) if value > dragin.threshold and (at or may_start))
    return Stretch(written, words, values, next(above, None))


def _values(dragin: "Dragin", written: Generation, words: Sequence[TokenWord]) -> tuple[float, ...]:
    """Of each kept token, the number that the trigger looks at."""
    tokens = written.tokens
    if dragin.trigger == "token_probability":
        return tuple(1 - math.exp(token.logprob or 0.0) for token in tokens)
    if dragin.trigger != "rind":
        return (0.0,) * len(tokens)
    stops = {at for word in words if _is_stopword(word.text) for at in range(word.first, word.last)}
    return tuple(
        0.0 if at in stops else (token.entropy or 0.0) * most_attention(written, at)
        for at, token in enumerate(tokens)
    )


def most_attention(written: Generation, at: int) -> float:
    """The greatest attention that a later token pays to token `at`; 0 while none has been fed."""
    later = (*written.tokens, *written.dropped)[at + 1 :]
    column = written.prompt_tokens + at
    return max((float(t.attention[column]) for t in later if t.attention is not None), default=0.0)


def _is_stopword(word: str) -> bool:
    return word.strip(".,;:!?\"'()").lower() in FUNCTION_WORDS
