"""Lessons in taking questions apart and putting answers together: AirRAG's SAY, QT and SA.

The sub-questions of 2WikiMultihopQA are made from its facts, those of StrategyQA are its decompositions as
far as they can be asked before anything is answered.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from askance.core.ports import Model
from askance.core.types import Demo
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Triple
from askance.methods.airrag.prompt_template import READER
from askance.methods.airrag.prompts import PromptBuilder
from askance.training.reader.lesson import TrainingExample, reply
from askance.training.reader.passages import Showing, among_distractors
from recipes.reader.relations import in_order, questions, role, same

NOTHING = "None"
"""What the prompts ask for where a question needs no splitting, or no more."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A question on the way.

    Attributes:
        planned: as it can be asked before anything is answered.
        resolved: with what is known by then in place.
        answer: empty where the dataset does not tell it.
    """

    planned: str
    resolved: str
    answer: str


def hops(example: Example) -> tuple[Hop, ...]:
    """The questions on the way to the answer of `example`, in order; none where the dataset tells of none."""
    if example.supporting_facts.triples:
        return _of_triples(in_order(example.supporting_facts.triples))
    steps = [
        step
        for step in example.supporting_facts.steps
        if "#" not in step.question and ">>" not in step.question
    ]
    return tuple(Hop(step.question.strip(), step.question.strip(), step.answer) for step in steps)


def splitting(example: Example, model: Model) -> Iterator[TrainingExample]:
    """SAY: the questions that can be asked at once, one a line; `None` for a question of one hop."""
    told = hops(example)
    if not told and example.hops != 1:
        return
    target = "\n".join(hop.planned for hop in told) if len(told) > 1 or example.hops != 1 else NOTHING
    yield reply(
        "splitting", example.question.id, PromptBuilder(model, example.question, READER).say(), target
    )


def following_up(example: Example, model: Model, random_: random.Random) -> Iterator[TrainingExample]:
    """QT: the planned question with what is known in place; where none is planned, the next or `None`."""
    told = _whole_way(example)
    if len(told) < 2:
        return
    at = random_.randint(1, len(told))
    history = tuple(Demo(hop.resolved, hop.answer) for hop in told[:at])
    is_planned = at < len(told) and random_.random() < 0.5
    current = told[at].planned if is_planned else ""
    target = told[at].resolved if at < len(told) else NOTHING
    if is_planned and told[at].planned == told[at].resolved:
        target = NOTHING  # as good as it can be asked
    prompt = PromptBuilder(model, example.question, READER).qt(history, current)
    yield reply("following_up", example.question.id, prompt, target)


def summing_up(
    example: Example, model: Model, showing: Showing, random_: random.Random
) -> Iterator[TrainingExample]:
    """SA: the short answer out of questions with their answers, with the passages or without."""
    told = _whole_way(example)
    if len(told) < 2:
        return
    supporting_facts = example.supporting_facts
    hits = (
        among_distractors(supporting_facts.supporting, (), showing, random_) if random_.random() < 0.5 else ()
    )
    history = tuple(Demo(hop.resolved, hop.answer) for hop in told)
    prompt = PromptBuilder(model, example.question, READER).sa(history, hits or ())
    yield reply("summing_up", example.question.id, prompt, example.golds[0])


def _whole_way(example: Example) -> tuple[Hop, ...]:
    """All hops with their answers, up to the example's; none where one is left out or not answered."""
    told = hops(example)
    num_steps = len(example.supporting_facts.triples or example.supporting_facts.steps)
    return told if len(told) == num_steps and all(hop.answer for hop in told) else ()


def _of_triples(triples: tuple[Triple, ...]) -> tuple[Hop, ...]:
    found = []
    for at, fact in enumerate(triples):
        leads = triples[at - 1] if at and same(triples[at - 1].object, fact.subject) else None
        resolved = questions(fact)[0]
        planned = questions(fact, role(leads))[0] if leads else resolved
        found.append(Hop(planned, resolved, fact.object))
    return tuple(found)
