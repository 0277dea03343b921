"""The way to an answer in sentences: one fact in each, and the answer in the last."""

from dataclasses import dataclass

from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Triple
from askance.text.sentences import sentences
from askance.train.reader.comparing import conclusions
from askance.train.reader.relations import same, statement

LONGEST_EVIDENCE_WORDS = 30
"""A longer sentence of a passage is not written out: the answer then stands alone."""


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
        triples = in_order(grounds.triples)
        facts = (*map(statement, triples), *conclusions(triples, example.golds[0]))
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
