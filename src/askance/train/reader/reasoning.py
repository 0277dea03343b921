"""The way to an answer in sentences: one fact in each, and the answer in the last."""

import re
from dataclasses import dataclass
from itertools import pairwise

from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Triple
from askance.text.sentences import sentences
from askance.train.reader.relations import same, statement

LONGEST_EVIDENCE_WORDS = 30
"""A longer sentence of a passage is not written out: the answer then stands alone."""

_MONTHS = "january february march april may june july august september october november december".split()
_ORDERED = ("date of birth", "date of death", "publication date", "inception")


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Sentences that lead to an answer.

    Attributes:
        facts: in order; none where the answer is read off directly.
        answer: the short answer.
    """

    facts: tuple[str, ...]
    answer: str

    @property
    def conclusion(self) -> str:
        """The last sentence."""
        return f"So the answer is{self.stated}"

    @property
    def stated(self) -> str:
        """What it ends in: the answer, with a blank and a full stop."""
        return f" {self.answer.removesuffix('.')}."

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it."""
        return (*self.facts, self.conclusion)

    @property
    def text(self) -> str:
        """All of it, as a method writes it."""
        return " ".join(self.sentences)


def reasoning(example: Example) -> Reasoning:
    """The way to the first gold answer, by the best that the dataset tells.

    That is its facts of a knowledge base, else its plain facts, else the sentences of its paragraphs that
    support the answer.
    """
    grounds = example.grounds
    if grounds.triples:
        facts = _told(in_order(grounds.triples))
    elif grounds.facts:
        facts = tuple(_closed(fact) for fact in grounds.facts)
    else:
        facts = _evidence(example)
    return Reasoning(facts, example.golds[0])


def in_order(triples: tuple[Triple, ...]) -> tuple[Triple, ...]:
    """Each chain of facts in one piece: what is told of an object follows the fact that leads to it."""
    ordered: list[Triple] = []
    left = list(triples)
    while left:
        fact: Triple | None = left.pop(0)
        while fact is not None:
            ordered.append(fact)
            fact = next((other for other in left if same(other.subject, ordered[-1].object)), None)
            if fact is not None:
                left.remove(fact)
    return tuple(ordered)


def _told(triples: tuple[Triple, ...]) -> tuple[str, ...]:
    told = [statement(fact) for fact in triples]
    ordered = [fact for fact in triples if fact.relation in _ORDERED]
    for one, other in pairwise(ordered):
        if one.relation == other.relation and one.subject != other.subject:
            told += comparison(one.object, other.object)
    return tuple(told)


def comparison(one: str, other: str) -> list[str]:
    """Which of two dates is the earlier, as one sentence; none where that can't be told."""
    first, second = _date(one), _date(other)
    length = min(len(first), len(second))
    if first[:length] == second[:length]:
        return []
    return [f"{one} is {'before' if first[:length] < second[:length] else 'after'} {other}."]


def _date(text: str) -> tuple[int, ...]:
    """Year, month, day, as far as they are told; nothing of a date before Christ."""
    year = re.search(r"\b(\d{3,4})\b", text)
    if year is None or re.search(r"\bB\.?C", text):
        return ()
    month = next((at for at, name in enumerate(_MONTHS, start=1) if name in text.casefold()), None)
    day = re.search(r"\b(\d{1,2})\b", text)
    return (int(year[1]), *((month, *((int(day[1]),) if day else ())) if month else ()))


def _evidence(example: Example) -> tuple[str, ...]:
    told = [
        _closed(sentence)
        for paragraph in example.grounds.supporting
        for part in paragraph.evidence_texts
        for sentence in sentences(part)
    ]
    num_words = sum(len(sentence.split()) for sentence in told)
    return tuple(told) if num_words <= LONGEST_EVIDENCE_WORDS * max(1, example.hops or 1) else ()


def _closed(sentence: str) -> str:
    sentence = " ".join(sentence.split())
    return sentence if sentence[-1:] in tuple(".!?\"'") else f"{sentence}."
