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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import MissingAbility
from askance.core.types import Token
from askance.text.linguistics import OWN, TokenWord, token_words

Numbers = NDArray[np.float64]


class MissingSignal(MissingAbility):
    """A gate needs a signal that was not recorded for this question. The message names the signal."""


def named_number(numbers: Mapping[str, float], name: str) -> float:
    """Return the number called `name`.

    Raises:
        MissingSignal: It was not recorded.
    """
    if name not in numbers:
        raise MissingSignal(f"{name} was not recorded")
    return numbers[name]


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
        return self._of_tokens("log-probabilities", lambda token: token.logprob)

    @property
    def entropies(self) -> Numbers:
        """The entropy of each token's distribution, in nats."""
        return self._of_tokens("entropies", lambda token: token.entropy)

    @property
    def margins(self) -> Numbers:
        """The difference between the probabilities of the two most probable tokens at each position."""
        return self._of_tokens("the two best tokens", lambda token: _margin(token.top))

    def number(self, name: str) -> float:
        """Return the number called `name`."""
        return named_number(self.numbers, name)

    def word_values(
        self, values: Sequence[float] | Numbers, combine: Callable[[Numbers], float]
    ) -> list[float]:
        """Return the combined value of the tokens of each content word, and 0 for every other word."""
        of_words = [0.0] * len(words := token_words(self.tokens))
        for at, word in content_words(self.text, words):
            of_words[at] = float(combine(np.asarray(values[word.first : word.last])))
        return of_words

    def _of_tokens(self, called: str, value_of: Callable[[Token], float | None]) -> Numbers:
        values = [value_of(token) for token in self.tokens]
        if not values or None in values:
            raise MissingSignal(f"{called} were not recorded")
        return np.array(values, dtype=np.float64)


def content_words(text: str, words: Sequence[TokenWord]) -> list[tuple[int, TokenWord]]:
    """Return the content words among the words of a text, each with its place in `words`."""
    spans = OWN.content_words(text)
    ends = [0, *(end for _, end in spans)]
    # `bisect_left` counts the spans that begin before the word ends.
    return [(at, word) for at, word in enumerate(words) if ends[bisect_left(spans, (word.end,))] > word.start]


def _margin(top: tuple[tuple[str, float], ...]) -> float | None:
    return float(np.exp(top[0][1]) - np.exp(top[1][1])) if len(top) > 1 else None


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
        return named_number(self.numbers, name)

    @property
    def draft(self) -> Written:
        """The answer from memory, for a gate that can't do without."""
        if self.memory is None:
            raise MissingSignal("the answer from memory was not recorded")
        return self.memory


class Gate(Protocol):
    """A gate or a guard."""

    def __call__(self, signals: Signals) -> float | Sequence[float]:
        """Return a number, or one for each word of the draft, that is greater the more a search is worth.

        Raises:
            MissingSignal: A signal that the gate needs was not recorded.
        """
