"""Examples: questions with their gold answers and supporting facts, in one form for all datasets."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from askance.core.records import Convert, Field
from askance.core.types import Question

NO_ANSWER = "noanswer"
"""The gold answer of a question that the documents don't answer, as in the metrics of HotpotQA and DRAGIN."""
UNANSWERABLE = "unanswerable"
"""The kind of such a question."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph that the dataset gives with a question.

    Attributes:
        evidence: The parts of `text` that the answer follows from, as offsets (start, end), in order. If the
            dataset marks a paragraph as supporting without naming parts, the whole text is evidence. A
            distractor has no evidence.
    """

    title: str
    text: str
    evidence: tuple[tuple[int, int], ...] = ()

    @property
    def is_supporting(self) -> bool:
        """Return whether the answer needs this paragraph."""
        return bool(self.evidence)

    @property
    def evidence_texts(self) -> tuple[str, ...]:
        """The evidence as strings, without surrounding white space."""
        return tuple(self.text[start:end].strip() for start, end in self.evidence)


@dataclass(frozen=True, slots=True)
class Triple:
    """A fact of a knowledge base, such as ("Carmen", "composer", "Georges Bizet")."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True)
class ReasoningStep:
    """A step of a question's decomposition.

    Attributes:
        question: The question of this step, in which "#1" stands for the answer of the first step.
        answer: The answer of this step; empty if the dataset does not give it.
    """

    question: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class SupportingFacts:
    """The supporting facts of a question. Fields that the dataset does not provide are empty.

    Attributes:
        paragraphs: The paragraphs of the question, in the order of the dataset.
        triples: The chain of facts, in the order of reasoning.
        steps: The decomposition of the question, in order.
        facts: Sentences that the answer follows from, if the dataset gives them without a paragraph.
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
    """A question with its gold answers.

    Attributes:
        golds: The gold answers, the preferred one first. A few datasets, such as biographies, have no gold
            answers, so metrics that need them don't apply.
        supporting_titles: The titles of the documents that the answer follows from, each once; empty if the
            dataset does not give them.
        kind: The type of the question, such as "bridge" or "comparison"; empty if the dataset has no types.
        hops: The number of reasoning steps that the question takes, according to the dataset.
        supporting_facts: The reasons why the answer is right, as far as the dataset gives them.
        answer_groups: The parts of a complete answer. Each part is a group of short answers, any of which is
            accepted. Empty if the question has a single answer.
        passages: The passages that the file supplies with the question, without evidence, best first.
    """

    question: Question
    golds: tuple[str, ...]
    supporting_titles: tuple[str, ...] = ()
    kind: str = ""
    hops: int | None = None
    supporting_facts: SupportingFacts = field(default=SupportingFacts(), repr=False)
    answer_groups: tuple[tuple[str, ...], ...] = ()
    passages: tuple[Paragraph, ...] = field(default=(), repr=False)


def with_passages(convert: Convert[Example]) -> Convert[Example]:
    """Return `convert` with the passages that a record supplies: `ctxs`, as in Self-RAG, or ALCE's `docs`.

    A passage is an object with a "text" and maybe a "title", which are strings. Anything else in these fields
    is ignored.
    """

    def converting(record: Field, number: int) -> Iterator[Example]:
        given = record.first("ctxs", "docs")
        passages = list[Paragraph]()
        for doc in given.each() if isinstance(given.value, list) else []:
            match doc.value:
                case {"text": str(text), **row} if text.strip() and isinstance(row.get("title"), str | None):
                    passages.append(Paragraph(doc.get("title", "").maybe_blank(), doc["text"].maybe_blank()))
        for example in convert(record, number):
            yield replace(example, passages=tuple(passages))

    return converting


def paragraphs_from_facts(
    texts: Iterable[tuple[str, Sequence[str]]], facts: Iterable[tuple[str, int]]
) -> tuple[Paragraph, ...]:
    """Return paragraphs whose evidence consists of the sentences that are supporting facts.

    Args:
        texts: The title and the sentences of each paragraph. Sentences are stripped, and blank ones left out.
        facts: The supporting facts, each as the title of a paragraph and the index of a sentence. Some real
            files have facts that do not occur in `texts`; these are ignored.
    """
    supporting, paragraphs = set(facts), list[Paragraph]()
    for title, sentences in texts:
        text, evidence = "", list[tuple[int, int]]()
        for number, sentence in enumerate(map(str.strip, sentences)):
            if sentence:
                start = len(text) + bool(text)
                text = f"{text} {sentence}" if text else sentence
                evidence += [(start, len(text))] * ((title, number) in supporting)
        paragraphs.append(Paragraph(title, text, tuple(evidence)))
    return tuple(paragraphs)


def whole(text: str) -> tuple[tuple[int, int], ...]:
    """Return the span of a whole text, as evidence."""
    return ((0, len(text)),)


def places(text: str, quotes: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """Return the span of the first occurrence of each quote, in the order of the text.

    Quotes that do not occur in the text are ignored.
    """
    stripped = {quote.strip() for quote in quotes if quote.strip()}
    found = ((text.find(quote), len(quote)) for quote in stripped)
    return tuple(sorted((start, start + length) for start, length in found if start >= 0))


def complete_triples(rows: Iterable[Sequence[str]]) -> tuple[Triple, ...]:
    """Return the rows as triples, leaving out rows with a blank part."""
    return tuple(Triple(*row) for row in rows if all(part.strip() for part in row))


def reasoning_steps(rows: Iterable[tuple[str, str]]) -> tuple[ReasoningStep, ...]:
    """Return pairs of a question and its answer as reasoning steps, or no steps if any question is blank.

    If only the blank question were left out, a reference such as "#2" would point to the wrong step.
    """
    steps = tuple(ReasoningStep(question, answer) for question, answer in rows)
    return steps if all(step.question.strip() for step in steps) else ()
