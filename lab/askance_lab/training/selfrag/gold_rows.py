"""Make rows of Self-RAG from datasets with supporting facts: the dataset is the teacher, and no model judges.

What the dataset states becomes reflection tokens. A passage in which evidence begins is relevant and supports
the answer. Other passages that BM25 finds, and that lack the answer, are irrelevant. After them, too, the
right answer is learned, as in the authors' data: a model that never learned to answer there writes nothing
after a passage that it takes for irrelevant by mistake. A relevant passage does not support the answer to
another question. If the passage is part of the question, nothing is retrieved. Wrong answers are read, but
only the tokens around them are learned.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter

from askance.core.types import Passage
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import UNANSWERABLE, Paragraph
from askance.methods.selfrag.tokens import (
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    RELEVANT,
    UTILITIES,
)
from askance.text.answers import normalise_answer
from askance_lab.training.relevance.pairs import ParagraphPool, indexed_paragraphs
from askance_lab.training.selfrag.rows import Learned, SelfRagRow, escaped, segment
from askance_lab.training.selfrag.settings import RowSettings

_BEST, _WORST = UTILITIES[-1], UTILITIES[0]


def gold_rows(name: str, examples: Sequence[Example], settings: RowSettings) -> tuple[SelfRagRow, ...]:
    """Return the rows of a dataset. They depend on the seed in the settings."""
    rng = random.Random(f"{settings.seed} {name} gold")
    answers = defaultdict[str, list[str]](list)
    for example in examples:
        if _is_answerable(example):
            answers[_topic(example)].append(example.golds[0])
    with indexed_paragraphs(examples) as pool:
        return tuple(
            row for example in examples for row in _rows(name, example, pool, answers, settings, rng)
        )


def _rows(
    name: str,
    example: Example,
    pool: ParagraphPool,
    answers: Mapping[str, Sequence[str]],
    settings: RowSettings,
    rng: random.Random,
) -> Iterator[SelfRagRow]:
    """Yield the rows of one question."""
    question, topic, number = example.question.text, _topic(example), 0

    def row(output: str, learned: Learned = "all", instruction: str = question) -> SelfRagRow:
        nonlocal number
        number += 1
        return SelfRagRow(f"{example.question.id}.{number}", name, instruction, "", output, learned, topic)

    if example.kind == UNANSWERABLE:
        own = [each for part in example.supporting_facts.paragraphs for each in pool.passages_of(part)]
        if own and answers[topic] and rng.random() < settings.unanswerable:
            yield row(segment(rng.choice(own), IRRELEVANT, rng.choice(answers[topic])) + _WORST, "tokens")
        return
    if not _is_answerable(example):
        return
    relevant = pool.relevant_passages(example)
    if len(example.supporting_facts.supporting) > 1:
        chain = _chain(example, pool)
        if chain:
            yield row(chain)
    else:
        yield from _single(example, relevant, answers[topic], settings, rng, row)
    if not relevant or not settings.negatives:
        return
    known = {passage.id for passage in relevant}
    lacking = (
        hit.passage
        for hit in pool.search(question)
        if hit.passage.id not in known and not any(holds_answer(hit.passage, gold) for gold in example.golds)
    )
    for passage in islice(lacking, settings.negatives):
        yield row(segment(passage, IRRELEVANT, example.golds[0]) + _BEST)


def _single(
    example: Example,
    relevant: Sequence[Passage],
    answers: Sequence[str],
    settings: RowSettings,
    rng: random.Random,
    row: Callable[..., SelfRagRow],
) -> Iterator[SelfRagRow]:
    """Yield the rows of a question with one supporting paragraph, about the passage that has the answer.

    Args:
        answers: The answers to all questions about the same document.
    """
    pairs = ((each, gold) for gold in example.golds for each in relevant if holds_answer(each, gold))
    passage, answer = next(pairs, (None, ""))
    if passage is None:
        return
    yield row(segment(passage, RELEVANT, answer, FULLY_SUPPORTED) + _BEST)
    wrong = [each for each in answers if not any(overlap(each, gold) for gold in example.golds)]
    if wrong and rng.random() < settings.unsupported:
        yield row(segment(passage, RELEVANT, rng.choice(wrong), NO_SUPPORT) + _WORST, "tokens")
    if rng.random() < settings.in_question:
        with_passage = f"{passage.titled_text}\n\n{example.question.text}"
        yield row(f"{NO_RETRIEVAL}{escaped(answer)}{_BEST}", instruction=with_passage)


def _chain(example: Example, pool: ParagraphPool) -> str:
    """Return an output with a segment for each supporting paragraph, which quotes its evidence.

    If the evidence of a paragraph does not stand in one passage, the result is an empty string.
    """
    segments, supporting = list[str](), example.supporting_facts.supporting
    for number, paragraph in enumerate(supporting, start=1):
        quoted = next(filter(itemgetter(1), _quotes(paragraph, pool)), None)
        if quoted is None:
            return ""
        passage, text = quoted
        if number == len(supporting):
            text += f" So the answer is {example.golds[0]}."
        segments.append(segment(passage, RELEVANT, text, FULLY_SUPPORTED))
    return "".join(segments) + _BEST


def _quotes(paragraph: Paragraph, pool: ParagraphPool) -> Iterator[tuple[Passage, str]]:
    """Yield each passage of a paragraph, and the evidence that stands in it as a whole."""
    for passage in pool.passages_of(paragraph):
        spans = [span for span in paragraph.evidence if passage.start <= span[0] and span[1] <= passage.end]
        yield passage, " ".join(paragraph.text[start:end].strip() for start, end in spans)


def _is_answerable(example: Example) -> bool:
    return example.kind != UNANSWERABLE and bool(example.golds) and bool(example.golds[0].strip())


def _topic(example: Example) -> str:
    """Return the title of the first document that a question is about, or an empty string."""
    return next(iter(example.supporting_titles), "")


def holds_answer(passage: Passage, answer: str) -> bool:
    """Return whether a passage has an answer, word for word. No passage has the answer yes or no."""
    words = normalise_answer(answer)
    if not words or words in ("yes", "no"):
        return False
    return f" {words} " in f" {normalise_answer(passage.text)} "


def overlap(one: str, other: str) -> bool:
    """Return whether one of two answers has the other in it."""
    first, second = (f" {normalise_answer(each)} " for each in (one, other))
    return first in second or second in first
