"""Which passage supports which sentence, judged by shared words, and what the sentences of an answer cite.

This is evidence, not a proof of entailment. A passage supports a sentence if it holds

- all that the sentence names: the words of its names, its numbers and dates;
- all words of the short answer, where the sentence states it;
- at least half of its words with content, and at least two of them.

A sentence that says nothing but the answer ("So the answer is Pisa.") is read with the question: the passage
holds all words of the answer and, if that is one word alone, one of the question; of a bare yes or no, the
names of the question and half of its words. Words are compared without case, accents, hyphens and a plural's
"s"; the endings of long ones may differ by two letters ("Korea", "Korean").

Where no passage does, the statement rests on an earlier sentence that says the answer, too: it cites the
passages of that sentence that hold it.

A passage counts if it was in the prompt while the sentence was written. Of those that support it, the ones
that the model named in a marker of its own are cited, or else the one that holds most of its words, of equals
the latest found and best ranked.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from askance.core.types import Answer, Citation, Hit, Passage
from askance.text.answers import is_yes_or_no, sentence_spans, statement_of
from askance.text.linguistics import content_words, entity_spans
from askance.text.markers import plain

LEAST_SHARE = 0.5
"""Of the words with content of a sentence, which a passage that supports it holds."""
LEAST_WORDS = 2
_CLOSING = re.compile(r"[.!?…]+[\"'”’)]*\Z")
STEM_LETTERS, MOST_ENDING = 5, 2
"""Two words of at least so many letters are one where they differ by at most so many at the end."""

Shown = Sequence[tuple[int, Sequence[Hit]]]
"""(offset, hits) in order: from this character of the answer on, these were the passages in the prompt."""
Asked = Sequence[tuple[int, str]]
"""(offset, question) in order: from this character on, the answer is one to this question."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker that the model wrote at an offset of its answer, and which passages it named.

    Attributes:
        lost: numbers that no passage in the prompt had.
    """

    at: int
    passages: tuple[Passage, ...]
    lost: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """What a sentence says, as far as it can be looked for in a passage.

    Attributes:
        needed: words that a passage must hold.
        words: words of which it must hold at least `least`.
    """

    needed: frozenset[str]
    words: frozenset[str]
    least: float

    def held(self, passage: Passage) -> int:
        """How many of the words `passage` holds."""
        held = _words(f"{passage.title}\n{passage.text}")
        return sum(_holds(held, word) for word in self.words)

    def objection(self, passage: Passage) -> str:
        """Why `passage` does not support it; nothing where it does."""
        held = _words(f"{passage.title}\n{passage.text}")
        lacking = sorted(word for word in self.needed if not _holds(held, word))
        if lacking:
            return f"{passage.title!r} lacks {', '.join(map(repr, lacking[:3]))}"
        num_held = self.held(passage)
        if num_held >= self.least:
            return ""
        few = f"{passage.title!r} holds {num_held} of its {len(self.words)} words"
        return few if self.words else "it has no word to look for"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a sentence, `text[start:end]` of an answer, cites, and why it cites no more."""

    start: int
    end: int
    passages: tuple[Passage, ...]
    why: str = ""


def claim_of(sentence: str, question: str = "", short: str = "") -> Claim:
    """What `sentence` says in an answer to `question` whose short answer is `short`."""
    said, stated = statement_of(sentence)
    words, asked = _words(f"{said} {stated}"), _words(question)
    if len(_words(said)) >= LEAST_WORDS:
        answer = _words(short)
        needed = _named(said) | _words(stated) | (answer if answer <= words else frozenset())
        return Claim(needed, words, max(LEAST_WORDS, LEAST_SHARE * len(words)))
    if words:
        return Claim(words, words | asked, LEAST_WORDS)
    if not is_yes_or_no(stated or said):
        return Claim(frozenset(), frozenset(), LEAST_WORDS)
    return Claim(_named(question), asked, max(LEAST_WORDS, LEAST_SHARE * len(asked)))


def findings(
    text: str, shown: Shown, asked: Asked = (), short: str = "", marks: Sequence[Mark] = ()
) -> tuple[Finding, ...]:
    """What each sentence of `text`, an answer without markers, cites.

    Args:
        asked: the questions that it answers; where there is none, a bare answer cites nothing.
        short: the short answer.
        marks: the markers that the model wrote.
    """
    spans = _spans(text)
    found = list[Finding]()
    for at, (start, end) in enumerate(spans):
        own = [mark for mark in marks if _sentence_of(mark.at, text, spans) == at]
        question = next((told for offset, told in reversed(asked) if offset <= start), "")
        claim = claim_of(text[start:end], question, short)
        passages, why = _supporting(claim, [hit.passage for hit in _shown_within(start, end, shown)], own)
        restated = () if passages else _cited_before(text[start:end], text, found)
        found.append(Finding(start, end, passages or restated, "" if restated else why))
    return tuple(found)


def _cited_before(sentence: str, text: str, found: Sequence[Finding]) -> tuple[Passage, ...]:
    """What an earlier sentence cites for the answer, where `sentence` says nothing but that answer."""
    said, stated = statement_of(sentence)
    if _words(said) or not _words(stated):
        return ()
    answer = Claim(_words(stated), frozenset(), 0)
    for each in reversed(found):
        if _words(stated) <= _words(text[each.start : each.end]):
            holding = tuple(passage for passage in each.passages if not answer.objection(passage))
            if holding:
                return holding
    return ()


def citations_of(found: Sequence[Finding]) -> tuple[Citation, ...]:
    """Citations in order of the text; passages are numbered in order of their first citation, from 1."""
    numbers: dict[str, int] = {}
    return tuple(
        Citation(numbers.setdefault(passage.id, len(numbers) + 1), passage, each.start, each.end)
        for each in found
        for passage in each.passages
    )


def best_support(claim: Claim, passages: Sequence[Passage]) -> tuple[Passage | None, str]:
    """Of the passages that support a claim the one that holds most of its words, or why there is none."""
    ranked = sorted(passages, key=claim.held, reverse=True)
    best = next((passage for passage in ranked if not claim.objection(passage)), None)
    is_refused = ranked and best is None
    return best, f"no passage shown supports it: {claim.objection(ranked[0])}" if is_refused else ""


def _supporting(
    claim: Claim, shown: Sequence[Passage], marks: Sequence[Mark]
) -> tuple[tuple[Passage, ...], str]:
    supporting, reasons = list[Passage](), list[str]()
    for passage in {each.id: each for mark in marks for each in mark.passages}.values():
        objection = claim.objection(passage)
        if objection:
            reasons.append(f"the model named it, but {objection}")
        else:
            supporting.append(passage)
    lost = "".join(f"[{number}]" for mark in marks for number in mark.lost)
    reasons += [f"the model wrote {lost}, which names no passage shown"] if lost else []
    if not supporting:
        best, why = best_support(claim, shown)
        supporting += [best] if best else []
        reasons += [why] if why else []
    return tuple(supporting), "; ".join(reasons)


def _spans(text: str) -> list[tuple[int, int]]:
    """The sentences; the end of a line ends one, too."""
    lines = re.finditer(r"[^\n]+", text)
    return [(line.start() + a, line.start() + b) for line in lines for a, b in sentence_spans(line[0])]


def _sentence_of(at: int, text: str, spans: Sequence[tuple[int, int]]) -> int:
    """The sentence that a marker belongs to: at the start of a line the next, or else the last."""
    begins_line = not text[:at].rstrip(" \t") or text[:at].rstrip(" \t").endswith("\n")
    behind = sum(start < at for start, _ in spans)
    return min(behind, len(spans) - 1) if begins_line else max(behind - 1, 0)


def _shown_within(start: int, end: int, shown: Shown) -> list[Hit]:
    """What was in the prompt while the text from `start` to `end` was written: the latest first, by rank."""
    before = [hits for offset, hits in shown if offset <= start][-1:]
    later = [hits for offset, hits in shown if start < offset < end]
    return [hit for hits in reversed([*before, *later]) for hit in sorted(hits, key=lambda hit: hit.rank)]


@lru_cache(maxsize=256)  # each passage is looked at for every sentence
def _words(text: str) -> frozenset[str]:
    """The words with content, without accents and hyphens, plurals without their "s"."""
    plain = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    parts = {part for word in content_words(plain) for part in re.split(r"[-.'’]", word) if part}
    return frozenset(part[:-1] if len(part) > 3 and part.endswith("s") else part for part in parts)


def _named(text: str) -> frozenset[str]:
    return frozenset(word for start, end in entity_spans(text) for word in _words(text[start:end]))


def _holds(held: frozenset[str], word: str) -> bool:
    """Whether `word` is there, or a word that one of the two is the stem of."""

    def is_kin(other: str) -> bool:
        stem, longer = sorted((word, other), key=len)
        is_stem = len(stem) >= STEM_LETTERS and not stem.isdigit() and longer.startswith(stem)
        return is_stem and len(longer) - len(stem) <= MOST_ENDING

    return word in held or any(map(is_kin, held))


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
            found.append(CitedSentence(text, _cited_in(answer, start, end)))
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


def _cited_in(answer: Answer, start: int, end: int) -> tuple[Passage, ...]:
    own = [each for each in answer.citations if each.start < end and each.end > start]
    own.sort(key=lambda citation: citation.number)
    return tuple({citation.passage.id: citation.passage for citation in own}.values())
