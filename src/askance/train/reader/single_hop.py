"""Lessons in reading for a short answer, and in saying that the passages do not contain it.

The prompt of `single` and its like always answers; AirRAG's RA may refuse, and is taught here. Questions on
one paragraph share it, and with it most of what there is to compute.
"""

import random
from collections.abc import Iterator, Sequence

from askance.core.ports import Model
from askance.core.types import Hit
from askance.eval.datasets import Example
from askance.eval.datasets.squad2 import UNANSWERABLE
from askance.methods.airrag.prompts import retrieval_answer_prompt
from askance.methods.airrag.wording import READER, REFUSAL
from askance.methods.prompts import Layout
from askance.train.reader.composing import parts
from askance.train.reader.lesson import Lesson, reply
from askance.train.reader.passages import as_hits, fitted
from askance.train.reader.reading import worked_answer
from askance.train.reader.reasoning import reasoning

MAY_REFUSE = 0.7
"""Share of the paragraphs whose questions are put to the prompt that may refuse, the only one for those
without an answer."""
PARTS_MAY_REFUSE = 0.1
"""The same of the passages of longer questions. Few: another prompt shares nothing with theirs, and costs as
much as all other questions on them."""


def on_paragraph(
    group: Sequence[Example], words: int, model: Model, layout: Layout, random_: random.Random
) -> Iterator[Lesson]:
    """All questions of one paragraph to the prompt that may refuse, or all to the one that always answers."""
    may_refuse = random_.random() < MAY_REFUSE
    for example in group:
        paragraph = fitted(example.grounds.paragraphs[0], words)
        if paragraph is None:
            continue
        hits, is_answered = as_hits([paragraph]), example.kind != UNANSWERABLE
        if is_answered and not may_refuse:
            known = reasoning(example)
            yield worked_answer(example.question.id, example.question.text, known, hits, model, layout)
        elif may_refuse:
            answer = example.golds[0] if is_answered else REFUSAL
            yield retrieval_answer(example.question.id, example.question.text, answer, hits, model)


def on_parts(
    example: Example, hits: Sequence[Hit], model: Model, layout: Layout, random_: random.Random
) -> Iterator[Lesson]:
    """Parts of the question of `example` over its passages; a refusal where a part is not told there."""
    may_refuse = random_.random() < PARTS_MAY_REFUSE
    texts = {hit.passage.title: hit.passage.text for hit in hits}
    for question, known, telling in parts(example):
        is_shown = all(known.answer in texts.get(paragraph.title, "") for paragraph in telling[-1:])
        is_shown = is_shown and all(paragraph.title in texts for paragraph in telling)
        if is_shown and not may_refuse:
            yield worked_answer(example.question.id, question, known, hits, model, layout)
        elif may_refuse:
            answer = known.answer if is_shown else REFUSAL
            yield retrieval_answer(example.question.id, question, answer, hits, model)


def retrieval_answer(id: str, question: str, answer: str, hits: Sequence[Hit], model: Model) -> Lesson:
    """RA with a known answer."""
    prompt = retrieval_answer_prompt(model, hits, question, words=READER)
    return reply("single_hop", id, prompt, answer)


def grouped_by_paragraph(examples: Sequence[Example]) -> list[list[Example]]:
    """Examples on the same paragraph together, in the order of their first question."""
    groups: dict[tuple[str, str], list[Example]] = {}
    for example in examples:
        paragraph = example.grounds.paragraphs[0]
        groups.setdefault((paragraph.title, paragraph.text), []).append(example)
    return list(groups.values())
