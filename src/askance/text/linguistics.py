"""The seam for what a method wants to know of a language: sentences, words with content, named entities."""

from collections.abc import Callable
from dataclasses import dataclass

from askance.text.entities import Spans, entity_spans
from askance.text.sentences import sentences
from askance.text.words import FUNCTION_WORDS, WORD


def _content_spans(text: str) -> Spans:
    words = WORD.finditer(text)
    return tuple(word.span() for word in words if _stem(word.group()) not in FUNCTION_WORDS)


def _real_words(text: str) -> frozenset[str]:
    return frozenset(text[start:end] for start, end in _content_spans(text))


def _stem(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("’s")


@dataclass(frozen=True, slots=True, repr=False)
class Linguistics:
    """How to read a text. Name two that differ differently: the name is what a trace and a cache key show.

    Attributes:
        sentences: the sentences of a text, stripped, without empty ones.
        real_words: the surface forms in a text that carry content (nouns, adjectives, verbs, numbers).
        entities: the named entities of a text as character offsets (start, end), in order, not overlapping;
            numbers and dates count.
        content_spans: the places of the `real_words` of a text, in the same form.
    """

    name: str
    sentences: Callable[[str], tuple[str, ...]]
    real_words: Callable[[str], frozenset[str]]
    entities: Callable[[str], Spans] = entity_spans
    content_spans: Callable[[str], Spans] = _content_spans

    def __repr__(self) -> str:
        return self.name

    def content_words(self, text: str) -> Spans:
        """The places of whole words with content.

        `content_spans` may cut a word where we don't ("father-in-law", "Bonn's"), and we where it does not
        ("4,250"). Words that share a character are one word here, with content if a part of it has some.
        """
        found: list[tuple[int, int, bool]] = []
        ours = ((*word.span(), False) for word in WORD.finditer(text))
        for start, end, has_content in sorted([*ours, *((*span, True) for span in self.content_spans(text))]):
            if found and start < found[-1][1]:
                begin, stop, had_content = found.pop()
                start, end, has_content = begin, max(stop, end), had_content or has_content
            found.append((start, end, has_content))
        return tuple((start, end) for start, end, has_content in found if has_content)


OWN = Linguistics("own", sentences, _real_words)
"""Sentences by sentencex; content words are all but the function words; entities by their spelling.

Needs no download.
"""
