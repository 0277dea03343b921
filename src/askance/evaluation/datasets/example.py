"""What every dataset is read into: a question with its answers, and why they are right."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from askance.core.types import Question


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text that came with a question.

    Attributes:
        evidence: the parts of `text` that the answer follows from, as offsets (start, end), in order; all
            of it where the dataset says no more than that it supports the answer. Empty for a distractor.
    """

    title: str
    text: str
    evidence: tuple[tuple[int, int], ...] = ()

    @property
    def is_supporting(self) -> bool:
        """Whether the answer needs it."""
        return bool(self.evidence)

    @property
    def evidence_texts(self) -> tuple[str, ...]:
        """The parts themselves, without the white space around them."""
        return tuple(self.text[start:end].strip() for start, end in self.evidence)


@dataclass(frozen=True, slots=True)
class Triple:
    """One fact of a knowledge base, such as ("Carmen", "composer", "Georges Bizet")."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True)
class ReasoningStep:
    """A question on the way; "#1" in it stands for the answer of the first step. Empty answer: not told."""

    question: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class SupportingFacts:
    """All that one record tells; what it does not tell is empty.

    Attributes:
        paragraphs: in the order of the dataset.
        triples: the chain of facts, in the order of reasoning.
        steps: the decomposition of the question, in order.
        facts: sentences without a source that the answer follows from.
    """

    paragraphs: tuple[Paragraph, ...] = ()
    triples: tuple[Triple, ...] = ()
    steps: tuple[ReasoningStep, ...] = ()
    facts: tuple[str, ...] = ()

    @property
    def supporting(self) -> tuple[Paragraph, ...]:
        """The paragraphs that the answer needs."""
        return tuple(paragraph for paragraph in self.paragraphs if paragraph.is_supporting)


@dataclass(frozen=True, slots=True)
class Example:
    """A question and what is known about it.

    Attributes:
        golds: the accepted answers, the preferred one first. Empty only in a dataset that has none, such as
            biographies: metrics that compare with them don't apply there.
        supporting_titles: the titles of the documents that the answer follows from, each once; empty where
            the dataset does not say.
        kind: the dataset's type of question, such as "bridge" or "comparison"; empty where it has none.
        hops: reasoning steps that the question takes, by what the dataset says of it.
        supporting_facts: why the answer is right, as far as the dataset tells.
        answer_groups: what a whole answer has to tell, each as the short answers that will do for it; empty
            where one answer is all there is.
    """

    question: Question
    golds: tuple[str, ...]
    supporting_titles: tuple[str, ...] = ()
    kind: str = ""
    hops: int | None = None
    supporting_facts: SupportingFacts = field(default=SupportingFacts(), repr=False)
    answer_groups: tuple[tuple[str, ...], ...] = ()


def from_sentences(title: str, sentences: Sequence[str], supporting: Collection[int]) -> Paragraph:
    """A paragraph whose text comes in sentences, some of which support the answer.

    Args:
        sentences: with or without the white space between them; blank ones are left out.
        supporting: numbers of sentences, from 0; those that are not there are passed over.
    """
    stripped = [sentence.strip() for sentence in sentences]
    evidence, end = [], -1
    for number, sentence in enumerate(stripped if supporting else ()):
        if not sentence:
            continue
        start, end = end + 1, end + 1 + len(sentence)
        if number in supporting:
            evidence.append((start, end))
    return Paragraph(title, " ".join(filter(None, stripped)), tuple(evidence))


def from_facts(
    texts: Iterable[tuple[str, Sequence[str]]], facts: Iterable[tuple[str, int]]
) -> tuple[Paragraph, ...]:
    """Paragraphs from titles with their sentences, and facts: titles with the number of a sentence each.

    A fact that is not in the texts, as real files have some, is passed over.
    """
    supporting: defaultdict[str, set[int]] = defaultdict(set)
    for title, number in facts:
        supporting[title].add(number)
    return tuple(from_sentences(title, sentences, supporting[title]) for title, sentences in texts)


def whole(text: str) -> tuple[tuple[int, int], ...]:
    """All of a text as evidence."""
    return ((0, len(text)),)


def places(text: str, quotes: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """Where quotes first stand in a text, in order and each once; those that do not are passed over."""
    stripped = {quote.strip() for quote in quotes if quote.strip()}
    found = ((text.find(quote), len(quote)) for quote in stripped)
    return tuple(sorted((start, start + length) for start, length in found if start >= 0))


def triples_of(rows: Iterable[Sequence[str]]) -> tuple[Triple, ...]:
    """Facts of three parts; one with a blank part tells nothing and is left out."""
    return tuple(Triple(*row) for row in rows if all(part.strip() for part in row))


def steps_of(rows: Iterable[tuple[str, str]]) -> tuple[ReasoningStep, ...]:
    """Questions with their answers. None at all where one is blank: "#2" would stand for another's answer."""
    steps = tuple(ReasoningStep(question, answer) for question, answer in rows)
    return steps if all(step.question.strip() for step in steps) else ()
