"""The seam for what a method wants to know of a language: sentences, and which words have content."""

from collections.abc import Callable
from dataclasses import dataclass

from askance.text.sentences import sentences
from askance.text.words import FUNCTION_WORDS, words


@dataclass(frozen=True, slots=True, repr=False)
class Linguistics:
    """How to read a text. Name two that differ differently: the name is what a trace and a cache key show.

    Attributes:
        sentences: the sentences of a text, stripped, without empty ones.
        real_words: the surface forms in a text that carry content (nouns, adjectives, verbs, numbers).
    """

    name: str
    sentences: Callable[[str], tuple[str, ...]]
    real_words: Callable[[str], frozenset[str]]

    def __repr__(self) -> str:
        return self.name


def _real_words(text: str) -> frozenset[str]:
    return frozenset(word for word in words(text) if _stem(word) not in FUNCTION_WORDS)


def _stem(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("’s")


OWN = Linguistics("own", sentences, _real_words)
"""Sentences by sentencex; content words are all but the function words. Needs no download."""
