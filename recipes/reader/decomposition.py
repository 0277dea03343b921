"""Training examples in taking questions apart and putting answers together: AirRAG's SAY, QT and SA.

The sub-questions of 2WikiMultihopQA are made from its facts, those of StrategyQA are its decompositions as
far as they can be asked before anything is answered.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from askance.core.ports import Model
from askance.core.types import Demo
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.grounds import Triple
from askance.methods.airrag.prompt_template import READER
from askance.methods.airrag.prompts import Prompts
from askance.training.reader.passages import PassageLimits, mix_with_distractors
from askance.training.reader.training_example import TrainingExample, reply_example
from recipes.reader.relations import in_chain_order, is_same_name, object_description, questions

NOTHING = "None"
"""What the prompts ask for where a question needs no splitting, or no more."""


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """A question on the way.

    Attributes:
        planned: as it can be asked before anything is answered.
        resolved: with what is known by then in place.
        answer: empty where the dataset does not tell it.
    """

    planned: str
    resolved: str
    answer: str


def sub_questions(example: Example) -> tuple[SubQuestion, ...]:
    """The questions on the way to the answer of `example`, in order; none where the dataset tells of none."""
    if example.grounds.triples:
        return _of_triples(in_chain_order(example.grounds.triples))
    steps = [step for step in example.grounds.steps if "#" not in step.question and ">>" not in step.question]
    return tuple(SubQuestion(step.question.strip(), step.question.strip(), step.answer) for step in steps)


def splitting_examples(example: Example, model: Model) -> Iterator[TrainingExample]:
    """SAY: the questions that can be asked at once, one a line; `None` for a question of one hop."""
    told = sub_questions(example)
    if not told and example.hops != 1:
        return
    target = "\n".join(hop.planned for hop in told) if len(told) > 1 or example.hops != 1 else NOTHING
    yield reply_example(
        "splitting", example.question.id, Prompts(model, example.question, READER).say(), target
    )


def following_up_examples(example: Example, model: Model, rng: random.Random) -> Iterator[TrainingExample]:
    """QT: the planned question with what is known in place; where none is planned, the next or `None`."""
    told = _whole_way(example)
    if len(told) < 2:
        return
    at = rng.randint(1, len(told))
    history = tuple(Demo(hop.resolved, hop.answer) for hop in told[:at])
    is_planned = at < len(told) and rng.random() < 0.5
    current = told[at].planned if is_planned else ""
    target = told[at].resolved if at < len(told) else NOTHING
    if is_planned and told[at].planned == told[at].resolved:
        target = NOTHING  # as good as it can be asked
    prompt = Prompts(model, example.question, READER).qt(history, current)
    yield reply_example("following_up", example.question.id, prompt, target)


def summing_up_examples(
    example: Example, model: Model, passage_limits: PassageLimits, rng: random.Random
) -> Iterator[TrainingExample]:
    """SA: the short answer out of questions with their answers, with the passages or without."""
    told = _whole_way(example)
    if len(told) < 2:
        return
    grounds = example.grounds
    hits = mix_with_distractors(grounds.supporting, (), passage_limits, rng) if rng.random() < 0.5 else ()
    history = tuple(Demo(hop.resolved, hop.answer) for hop in told)
    prompt = Prompts(model, example.question, READER).sa(history, hits or ())
    yield reply_example("summing_up", example.question.id, prompt, example.golds[0])


def _whole_way(example: Example) -> tuple[SubQuestion, ...]:
    """All hops with their answers, up to the example's; none where one is left out or not answered."""
    told = sub_questions(example)
    num_steps = len(example.grounds.triples or example.grounds.steps)
    return told if len(told) == num_steps and all(hop.answer for hop in told) else ()


def _of_triples(triples: tuple[Triple, ...]) -> tuple[SubQuestion, ...]:
    found = []
    for at, fact in enumerate(triples):
        leads = triples[at - 1] if at and is_same_name(triples[at - 1].object, fact.subject) else None
        resolved = questions(fact)[0]
        planned = questions(fact, object_description(leads))[0] if leads else resolved
        found.append(SubQuestion(planned, resolved, fact.object))
    return tuple(found)
