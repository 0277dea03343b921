"""Pairs of a question and a passage that is relevant to it or not, from datasets with supporting facts.

All paragraphs of a dataset are cut and indexed as `askance index` does it. A passage is relevant if evidence
begins in it. The irrelevant passages of a question are the first ones that BM25 finds for it, since these are
the ones that a reranker has to distinguish from the relevant ones. Both kinds are cut alike, so their lengths
give nothing away.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from askance.core.errors import InputError
from askance.core.types import Hit, Passage
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import UNANSWERABLE, Paragraph
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.documents import Document
from askance.retrieval.index.lexical import LexicalIndex, LexicalWriter, any_term_query
from askance.retrieval.index.passages import cut_passages
from askance_lab.training.held_out import is_held_out_unit
from askance_lab.training.relevance.settings import RelevanceSettings

CANDIDATES = 20
"""The number of passages that BM25 is asked for."""
_ANALYSIS = Analysis()
Task = Literal["relevance", "support"]


@dataclass(frozen=True, slots=True)
class RelevancePair:
    """A question, or a question with an answer, and a passage.

    Attributes:
        id: The name of the dataset and the id of the question.
        task: What is judged: the relevance of the passage to a question, or its support of an answer.
        query: The question, followed by the answer if support is judged.
        label: Whether the passage is relevant, or supports the answer.
        hit: The passage as BM25 found it for the question; None if it is not among the first ones.
    """

    id: str
    task: Task
    query: str
    passage: Passage
    label: bool
    hit: Hit | None = None


@dataclass(frozen=True, slots=True)
class PairMix:
    """The pairs of one training run.

    Attributes:
        held_out: The pairs of held-out questions. A document that is relevant to one is not in `training`.
        left_out: The number of questions that yield no pair, by dataset and reason.
    """

    training: tuple[RelevancePair, ...]
    held_out: tuple[RelevancePair, ...]
    num_questions: Mapping[str, int]
    left_out: Mapping[tuple[str, str], int]

    @property
    def counts(self) -> list[tuple[str, str, int, int]]:
        """The dataset, the task, the number of training pairs, and how many of these are positive."""
        labels = defaultdict[tuple[str, str], list[bool]](list)
        for pair in self.training:
            labels[pair.id.partition("/")[0], pair.task].append(pair.label)
        return [(name, task, len(each), sum(each)) for (name, task), each in labels.items()]


def make_pairs(examples_by_dataset: Mapping[str, Sequence[Example]], settings: RelevanceSettings) -> PairMix:
    """Return the pairs of all datasets.

    Questions about documents of one title are held out together. Pairs with a document that is relevant to
    a held-out question are not trained on.

    Raises:
        InputError: The datasets yield nothing to train on, or only relevant or irrelevant passages.
    """
    training, held_out, left_out = list[RelevancePair](), list[RelevancePair](), Counter[tuple[str, str]]()
    for name, examples in examples_by_dataset.items():
        rng = random.Random(f"{settings.seed} {name}")
        with indexed_paragraphs(examples) as pool:
            for example in examples:
                pairs = list(_pairs_of(example, pool, settings, rng))
                if not pairs:
                    left_out[name, "no paragraphs, no evidence, or not drawn"] += 1
                where = held_out if _is_held_out(name, example, settings.held_out) else training
                where += [replace(pair, id=f"{name}/{pair.id}") for pair in pairs]
    titles = {pair.passage.title for pair in held_out if pair.label}
    training = [pair for pair in training if pair.passage.title not in titles]
    labels = {pair.label for pair in training}
    if len(labels) < 2:
        kind = {(): "no pairs", (True,): "only relevant passages"}.get(
            tuple(labels), "only irrelevant passages"
        )
        reasons = "; ".join(f"{count:,} of {name}: {why}" for (name, why), count in left_out.items())
        raise InputError(
            f"the datasets hold {kind} to train on ({reasons or 'held_out leaves nothing else'}). Give "
            "datasets whose questions have supporting paragraphs and other paragraphs, or a lower held_out."
        )
    counts = {name: len(examples) for name, examples in examples_by_dataset.items()}
    return PairMix(tuple(training), tuple(held_out), counts, left_out)


@dataclass(frozen=True, slots=True)
class ParagraphPool:
    """All paragraphs of a dataset, cut into passages and indexed.

    Attributes:
        ids: The id of each paragraph in the index, by its title and text.
    """

    ids: Mapping[tuple[str, str], str]
    index: LexicalIndex

    def search(self, text: str) -> list[Hit]:
        """Return the first `CANDIDATES` passages that BM25 finds."""
        terms = _ANALYSIS.terms(text)
        found = self.index.search(any_term_query(terms), CANDIDATES) if terms else []
        return [
            Hit(self.index.passage(place), score, rank) for rank, (score, place) in enumerate(found, start=1)
        ]

    def passages_of(self, paragraph: Paragraph) -> list[Passage]:
        """Return the passages of a paragraph, in order."""
        id = self.ids.get((paragraph.title, paragraph.text))
        found = self.index.passages_of(id).values() if id else ()
        return sorted(found, key=lambda passage: passage.start)

    def relevant_passages(self, example: Example) -> list[Passage]:
        """Return the passages in which evidence begins."""
        return [
            passage
            for paragraph in example.supporting_facts.supporting
            for passage in self.passages_of(paragraph)
            if any(passage.start <= start < passage.end for start, _ in paragraph.evidence)
        ]


@contextmanager
def indexed_paragraphs(examples: Sequence[Example]) -> Iterator[ParagraphPool]:
    """Index the paragraphs of all examples in a temporary folder."""
    with index_of(each for example in examples for each in example.supporting_facts.paragraphs) as pool:
        yield pool


@contextmanager
def index_of(paragraphs: Iterable[Paragraph]) -> Iterator[ParagraphPool]:
    """Index paragraphs in a temporary folder."""
    ids: dict[tuple[str, str], str] = {}
    with TemporaryDirectory() as folder:
        writer = LexicalWriter(Path(folder), _ANALYSIS)
        for title, text in dict.fromkeys((each.title, each.text) for each in paragraphs):
            id = ids[title, text] = f"{len(ids)}"
            writer.add(id, cut_passages(Document(id, title, text, is_row=True)))
        writer.commit()
        try:
            yield ParagraphPool(ids, writer.committed())
        finally:
            writer.finish()


def _pairs_of(
    example: Example, pool: ParagraphPool, settings: RelevanceSettings, rng: random.Random
) -> Iterator[RelevancePair]:
    """Yield the pairs of one question: its relevant passages, and the first irrelevant ones of BM25."""
    question = example.question
    relevant, hits = pool.relevant_passages(example), pool.search(question.text)
    found = {hit.passage.id: hit for hit in hits}
    if example.kind == UNANSWERABLE:
        own = [each for part in example.supporting_facts.paragraphs for each in pool.passages_of(part)]
        if own and rng.random() < settings.unanswerable:
            passage = min(own, key=lambda each: found[each.id].rank if each.id in found else CANDIDATES + 1)
            yield RelevancePair(question.id, "relevance", question.text, passage, label=False)
        return
    if not relevant:
        return
    known = {passage.id for passage in relevant}
    others = [hit.passage for hit in hits if hit.passage.id not in known][: settings.negatives]
    for passage in (*relevant, *others):
        yield RelevancePair(
            question.id, "relevance", question.text, passage, passage.id in known, found.get(passage.id)
        )
    if example.golds and rng.random() < settings.claims:
        yield from _claims(example, relevant, others, rng)


def _claims(
    example: Example, relevant: Sequence[Passage], others: Sequence[Passage], rng: random.Random
) -> Iterator[RelevancePair]:
    """Yield the question with its answer beside a passage that has the answer, and one that has not."""
    answer = example.golds[0]
    holding = [passage for passage in relevant if answer.lower() in passage.text.lower()]
    lacking = [passage for passage in others if answer.lower() not in passage.text.lower()]
    claim = f"{example.question.text} {answer}"
    for passages, label in ((holding, True), (lacking, False)):
        if passages:
            yield RelevancePair(example.question.id, "support", claim, rng.choice(passages), label)


def _is_held_out(name: str, example: Example, share: float) -> bool:
    paragraphs = example.supporting_facts.supporting or example.supporting_facts.paragraphs
    title = min((paragraph.title for paragraph in paragraphs), default=example.question.id)
    return is_held_out_unit(f"{name} {title}", share)
