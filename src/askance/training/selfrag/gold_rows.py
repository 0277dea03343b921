"""Make rows of Self-RAG from datasets with supporting facts: the dataset is the teacher, and no model judges.

What the dataset states becomes reflection tokens. A passage in which evidence begins is relevant and supports
the answer. Other passages that BM25 finds, and that lack the answer, are irrelevant. A relevant passage does
not support the answer to another question. If the passage is part of the question, nothing is retrieved.
Answers that stand where they teach the wrong thing are read, but only the tokens around them are learned.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from askance.core.types import Passage
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.single_hop import UNANSWERABLE
from askance.methods.selfrag.tokens import (
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    PARAGRAPH_END,
    PARAGRAPH_START,
    RELEVANT,
    RETRIEVAL,
    UTILITIES,
    escape_tokens,
)
from askance.training.relevance.pairs import ParagraphPool, indexed_paragraphs
from askance.training.selfrag.rows import Learned, SelfRagRow
from askance.training.selfrag.settings import SelfRagSettings

_BEST, _WORST = UTILITIES[-1], UTILITIES[0]


def gold_rows(name: str, examples: Sequence[Example], settings: SelfRagSettings) -> tuple[SelfRagRow, ...]:
    """Return the rows of a dataset. They depend on the seed in the settings.

    Args:
        name: The name of the dataset.
    """
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
    settings: SelfRagSettings,
    rng: random.Random,
) -> Iterator[SelfRagRow]:
    """Yield the rows of one question."""
    question, number = example.question.text, 0

    def row(output: str, learned: Learned = "all", instruction: str = question) -> SelfRagRow:
        nonlocal number
        number += 1
        return SelfRagRow(f"{example.question.id}.{number}", name, instruction, "", output, learned)

    relevant = pool.relevant_passages(example)
    others = [answer for answer in answers[_topic(example)] if answer not in example.golds]
    wrong = rng.choice(others) if others else ""
    if example.kind == UNANSWERABLE:
        own = [each for part in example.supporting_facts.paragraphs for each in pool.passages_of(part)]
        if own and wrong and rng.random() < settings.unanswerable:
            yield row(_segment(rng.choice(own), IRRELEVANT, wrong) + _WORST, "tokens")
        return
    if not relevant or not _is_answerable(example):
        return
    answer = _text(example.golds[0])
    if len(example.supporting_facts.supporting) > 1:
        yield row(_chain(example, pool))
    else:
        yield row(_segment(relevant[0], RELEVANT, answer, FULLY_SUPPORTED) + _BEST)
        if wrong and rng.random() < settings.unsupported:
            yield row(_segment(relevant[0], RELEVANT, wrong, NO_SUPPORT) + _WORST, "tokens")
        if rng.random() < settings.in_question:
            yield row(
                f"{NO_RETRIEVAL}{answer}{_BEST}", instruction=f"{relevant[0].titled_text}\n\n{question}"
            )
    known = {passage.id for passage in relevant}
    lacking = (
        hit.passage
        for hit in pool.search(question)
        if hit.passage.id not in known and not any(_holds(hit.passage, gold) for gold in example.golds)
    )
    for passage, _ in zip(lacking, range(settings.negatives), strict=False):
        yield row(_segment(passage, IRRELEVANT, answer) + _BEST, "tokens")


def _chain(example: Example, pool: ParagraphPool) -> str:
    """Return an output with a segment for each supporting paragraph: its evidence."""
    segments = list[str]()
    supporting = example.supporting_facts.supporting
    for number, paragraph in enumerate(supporting, start=1):
        passage = next(
            (
                each
                for each in pool.passages_of(paragraph)
                if any(each.start <= start < each.end for start, _ in paragraph.evidence)
            ),
            None,
        )
        text = " ".join(paragraph.evidence_texts)
        if number == len(supporting):
            text += f" So the answer is {example.golds[0]}."
        if passage is not None:
            segments.append(_segment(passage, RELEVANT, _text(text), FULLY_SUPPORTED))
    return "".join(segments) + _BEST


def _segment(passage: Passage, relevance: str, text: str, support: str = "") -> str:
    shown = _text(f"{passage.title}\n{passage.text}")
    return f"{RETRIEVAL}{PARAGRAPH_START}{shown}{PARAGRAPH_END}{relevance}{_text(text)}{support}"


def _text(text: str) -> str:
    """Return a text in which the strings of reflection tokens are data."""
    return escape_tokens(text)[0]


def _is_answerable(example: Example) -> bool:
    return example.kind != UNANSWERABLE and bool(example.golds) and bool(example.golds[0].strip())


def _topic(example: Example) -> str:
    """Return an output with a segment for each supporting paragraph, which quotes its evidence."""
    return next(iter(example.supporting_titles), "")


def _holds(passage: Passage, answer: str) -> bool:
    return answer.lower() in passage.text.lower()
