"""The seam for what a method wants to know of a language: sentences, words with content, named entities."""

from collections.abc import Callable
from dataclasses import dataclass

from askance.text.entities import entity_spans
from askance.text.sentences import sentences
from askance.text.words import FUNCTION_WORDS, words


@dataclass(frozen=True, slots=True, repr=False)
class Linguistics:
    """How to read a text. Name two that differ differently: the name is what a trace and a cache key show.

    Attributes:
        sentences: the sentences of a text, stripped, without empty ones.
        real_words: the surface forms in a text that carry content (nouns, adjectives, verbs, numbers).
        entities: the named entities of a text as character offsets (start, end), in order, not overlapping;
            numbers and dates count.
    """

    name: str
    sentences: Callable[[str], tuple[str, ...]]
    real_words: Callable[[str], frozenset[str]]
    entities: Callable[[str], tuple[tuple[int, int], ...]] = entity_spans

    def __repr__(self) -> str:
        return self.name


def _real_words(text: str) -> frozenset[str]:
    return frozenset(word for word in words(text) if _stem(word) not in FUNCTION_WORDS)


def _stem(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("’s")


OWN = Linguistics("own", sentences, _real_words)
"""Sentences by sentencex; content words are all but the function words; entities by their spelling.

Needs no download.
"""
