"""Training examples of question decomposition and answer synthesis: AirRAG's actions SAY, QT and SA.

The sub-questions of 2WikiMultihopQA are made from its facts. Those of StrategyQA are the steps of its
decompositions that do not depend on the answers to earlier steps.
"""

import random
from collections.abc import Iterator

from askance.core.ports import Model
from askance.core.types import Demo
from askance.evaluation.datasets import Example
from askance.methods.airrag.prompts import READER, PromptBuilder
from askance_lab.training.actions.decomposition import SubQuestion, from_triples
from askance_lab.training.reader.passages import PassageLimits, mix_with_distractors
from askance_lab.training.reader.training_example import TrainingExample, reply_example

NO_QUESTION = "None"
"""The reply that the prompts request if a question needs no splitting, or no further sub-question."""


def sub_questions(example: Example) -> tuple[SubQuestion, ...]:
    """Return the sub-questions that lead to the answer, in order, or an empty tuple if there are none."""
    if example.supporting_facts.triples:
        return from_triples(example.supporting_facts.triples)
    steps = [
        step
        for step in example.supporting_facts.steps
        if "#" not in step.question and ">>" not in step.question
    ]
    return tuple(SubQuestion(step.question.strip(), step.question.strip(), step.answer) for step in steps)


def splitting_examples(example: Example, model: Model) -> Iterator[TrainingExample]:
    """Yield an example of SAY, whose target is the sub-questions, or "None" for a single-hop question."""
    steps = sub_questions(example)
    if not steps and example.hops != 1:
        return
    is_split = len(steps) > 1 or example.hops != 1
    target = "\n".join(step.planned for step in steps) if is_split else NO_QUESTION
    prompt = PromptBuilder(model, example.question, READER).say()
    yield reply_example("splitting", example.question.id, prompt, target)


def following_up_examples(example: Example, model: Model, rng: random.Random) -> Iterator[TrainingExample]:
    """Yield an example of QT, whose target is the next sub-question, or "None" after the last one.

    Half of the prompts show the next sub-question as planned. The target then has the known answers filled
    in. It is "None" if the planned sub-question needs no answer filled in.
    """
    steps = _answered_steps(example)
    if len(steps) < 2:
        return
    num_answered = rng.randint(1, len(steps))
    history = tuple(Demo(step.resolved, step.answer) for step in steps[:num_answered])
    next_step = steps[num_answered] if num_answered < len(steps) else None
    is_planned = next_step is not None and rng.random() < 0.5
    planned = next_step.planned if next_step is not None and is_planned else ""
    target = next_step.resolved if next_step is not None else NO_QUESTION
    if is_planned and planned == target:
        target = NO_QUESTION  # the planned question has nothing to fill in
    prompt = PromptBuilder(model, example.question, READER).qt(history, planned)
    yield reply_example("following_up", example.question.id, prompt, target)


def summing_up_examples(
    example: Example, model: Model, limits: PassageLimits, rng: random.Random
) -> Iterator[TrainingExample]:
    """Yield an example of SA, whose target is the short answer, given the answered sub-questions.

    Half of the prompts also show the supporting passages.
    """
    steps = _answered_steps(example)
    if len(steps) < 2:
        return
    supporting = example.supporting_facts.supporting
    hits = mix_with_distractors(supporting, (), limits, rng) if rng.random() < 0.5 else ()
    history = tuple(Demo(step.resolved, step.answer) for step in steps)
    prompt = PromptBuilder(model, example.question, READER).sa(history, hits or ())
    yield reply_example("summing_up", example.question.id, prompt, example.golds[0])


def _answered_steps(example: Example) -> tuple[SubQuestion, ...]:
    """Return all sub-questions with their answers, or an empty tuple if one is missing or has no answer."""
    steps = sub_questions(example)
    num_steps = len(example.supporting_facts.triples or example.supporting_facts.steps)
    return steps if len(steps) == num_steps and all(step.answer for step in steps) else ()
