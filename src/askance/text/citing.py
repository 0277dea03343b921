"""Citations and the text of an answer: which passages a sentence cites, and markers such as " [2]"."""

import re
from dataclasses import dataclass

from askance.core.types import Answer, Passage
from askance.text.answers import sentence_spans
from askance.text.markers import plain

_CLOSING = re.compile(r"[.!?…]+[\"'”’)]*\Z")


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence of an answer without markers, and the passages that it cites, each once."""

    text: str
    passages: tuple[Passage, ...]


def unmarked(text: str) -> str:
    """`text` without markers (`text.markers`); what passages it was written from is not known here.

    >>> unmarked("It is Bonn [1][2].")
    'It is Bonn.'
    """
    return plain(text, lambda: ("",)).text


def cited_sentences(answer: Answer) -> tuple[CitedSentence, ...]:
    """The sentences of an answer; each cites what its text or a part of it is said to be supported by."""
    found = []
    for start, end in sentence_spans(answer.text):
        text = unmarked(answer.text[start:end]).strip()
        if text:
            found.append(CitedSentence(text, _cited(answer, start, end)))
    return tuple(found)


def cited_passages(answer: Answer) -> tuple[Passage, ...]:
    """The passages that an answer cites, each once, in the order of their numbers."""
    citations = sorted(answer.citations, key=lambda citation: citation.number)
    return tuple({citation.passage.id: citation.passage for citation in citations}.values())


def marked(answer: Answer) -> str:
    """The text of an answer on one line; before the stop of each sentence stand the markers of what it cites.

    Numbers count `cited_passages` from 1. Markers that stand in the text already give way to these.
    """
    numbers = {passage.id: number for number, passage in enumerate(cited_passages(answer), start=1)}
    told = []
    for sentence in cited_sentences(answer):
        markers = "".join(f"[{number}]" for number in sorted(numbers[each.id] for each in sentence.passages))
        closing = _CLOSING.search(sentence.text)
        at = closing.start() if closing else len(sentence.text)
        told.append(sentence.text[:at] + (f" {markers}" if markers else "") + sentence.text[at:])
    return " ".join(" ".join(told).split())


def _cited(answer: Answer, start: int, end: int) -> tuple[Passage, ...]:
    own = [each for each in answer.citations if each.start < end and each.end > start]
    own.sort(key=lambda citation: citation.number)
    return tuple({citation.passage.id: citation.passage for citation in own}.values())
