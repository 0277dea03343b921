"""Signals: what is known about a question before a search and, for guards, after it.

A gate is a function of `Signals`. It returns a number that is greater the more a search is worth: a search is
made if the number is above a threshold. A gate of tokens may return one number for each word of the draft, of
which the greatest counts for the question; a method that searches while it writes uses them all. A guard is a
gate that also reads the answer after a search, and its number is greater the more that answer should replace
the one from memory.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import MissingAbility
from askance.core.types import Token
from askance.text.linguistics import OWN, TokenWord, token_words

T = TypeVar("T")
Numbers = NDArray[np.float64]


class MissingSignal(MissingAbility):
    """A gate needs a signal that was not recorded for this question. The message names the signal."""


def recorded(signal: T | None, name: str) -> T:
    """Return a signal that a gate can't do without.

    Args:
        name: The name of the signal with its verb, such as "attention was", for the error message.

    Raises:
        MissingSignal: It is None or an empty sequence.
    """
    if signal is None or signal == ():
        raise MissingSignal(f"{name} not recorded")
    return signal


@dataclass(frozen=True, slots=True)
class Written:
    """An answer with the signals of its tokens.

    Attributes:
        answer: The short answer.
        tokens: The tokens of the whole text. Their `top` holds at least two tokens if margins are known.
        influences: For each word of the text (see `token_words`), the maximum attention that a later token
            pays to it; empty if attention is unknown.
        samples: The short answers of further texts that were sampled from the same prompt.
        numbers: Further numbers about the answer by name, such as "support".
    """

    answer: str
    tokens: tuple[Token, ...] = ()
    influences: tuple[float, ...] = ()
    samples: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(token.text for token in self.tokens)

    @property
    def logprobs(self) -> Numbers:
        """The log-probability of each token, in nats."""
        return self._of_tokens("log-probabilities were", lambda token: token.logprob)

    @property
    def entropies(self) -> Numbers:
        """The entropy of each token's distribution, in nats."""
        return self._of_tokens("entropies were", lambda token: token.entropy)

    @property
    def margins(self) -> Numbers:
        """The difference between the probabilities of the two most probable tokens at each position."""
        return self._of_tokens("the two best tokens were", _margin)

    def number(self, name: str) -> float:
        """Return the number called `name`."""
        return recorded(self.numbers.get(name), f"{name} was")

    def word_values(self, values: Numbers, combine: Callable[[Numbers], float]) -> list[float]:
        """Return the combined value of the tokens of each content word, and 0 for every other word."""
        of_words = [0.0] * len(words := token_words(self.tokens))
        for at, word in content_words(self.text, words):
            of_words[at] = float(combine(values[word.first : word.last]))
        return of_words

    def _of_tokens(self, name: str, value_of: Callable[[Token], float | None]) -> Numbers:
        values = tuple(value_of(token) for token in self.tokens)
        return np.array(recorded(None if None in values else values, name), dtype=np.float64)


def content_words(text: str, words: Sequence[TokenWord]) -> list[tuple[int, TokenWord]]:
    """Return the content words among the words of a text, each with its place in `words`."""
    spans = OWN.content_words(text)
    ends = [0, *(end for _, end in spans)]
    # `bisect_left` counts the spans that begin before the word ends.
    return [(at, word) for at, word in enumerate(words) if ends[bisect_left(spans, (word.end,))] > word.start]


def two_best(token: Token) -> tuple[float, float] | None:
    """Return the log-probabilities of the two most probable tokens; None if they are not known."""
    return (token.top[0][1], token.top[1][1]) if len(token.top) > 1 else None


def _margin(token: Token) -> float | None:
    two = two_best(token)
    return float(np.exp(two[0]) - np.exp(two[1])) if two else None


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of one question.

    Attributes:
        question: The text of the question; empty if it was not recorded.
        memory: The answer from memory; None if it was not recorded.
        read: The answer after one search; None if it was not recorded.
        scores: The scores of the passages found for the question, best first; empty if not recorded.
        numbers: Further numbers about the question by name, in which greater means less sure.
    """

    question: str = ""
    memory: Written | None = None
    read: Written | None = None
    scores: tuple[float, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)

    def number(self, name: str) -> float:
        """Return the number called `name`."""
        return recorded(self.numbers.get(name), f"{name} was")

    @property
    def draft(self) -> Written:
        """The answer from memory, for a gate that can't do without."""
        return recorded(self.memory, "the answer from memory was")


class Gate(Protocol):
    """A gate or a guard."""

    def __call__(self, signals: Signals) -> float | Sequence[float]:
        """Return a number, or one for each word of the draft, that is greater the more a search is worth.

        Raises:
            MissingSignal: A signal that the gate needs was not recorded.
        """
