"""The steps of recorded trees that a reward model learns from, with their values, and how it is measured."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from askance.core.errors import InputError
from askance.evaluation.report.trees import LEAST_VALUE, TreeStep, steps_of
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.roc import RocArea, roc_area
from askance_lab.training.held_out import is_held_out_question


@dataclass(frozen=True, slots=True)
class LabelledState:
    """The steps of a path so far, and their value.

    Attributes:
        id: The name of the run, and the id of the question.
        value: The share of right answers among the samples of answers from here (see `TreeStep.value`).
        weight: The weight of the state in the loss.
    """

    id: str
    question: str
    step: TreeStep
    value: float
    weight: float = 1.0

    @property
    def is_good(self) -> bool:
        """Return whether the state counts as one that leads to right answers."""
        return self.value >= LEAST_VALUE


@dataclass(frozen=True, slots=True)
class RewardResult:
    """The results of a reward model on steps of held-out questions.

    Attributes:
        area: The area under the ROC curve of the reward, for values of at least 0.5 against the others.
        of_answers: The same for answers alone.
        by_consistency: The area that the reward during the search has for answers.
    """

    num_states: int
    area: RocArea
    of_answers: RocArea
    by_consistency: RocArea


def states_of_run(name: str, run: RecordedRun, num_states: int, seed: int) -> list[LabelledState]:
    """Return the states of all questions of a run (see `states_of_question`)."""
    states = list[LabelledState]()
    for record in run.records:
        steps, id = steps_of(run.trace(record), record.golds), f"{name}/{record.id}"
        states += states_of_question(id, record.question, steps, num_states, f"{seed} {name} {record.id}")
    return states


def states_of_question(
    id: str, question: str, steps: Sequence[TreeStep], num_states: int, seed: str
) -> list[LabelledState]:
    """Return at most `num_states` states of each kind of a question's steps.

    States count at least two samples of answers, or are answers. If the answers of the question are all
    right, or all wrong, its states have half the weight.
    """
    known = [step for step in steps if step.is_estimated]
    weight = 1.0 if len({step.value for step in steps if step.is_end}) == 2 else 0.5
    rng, states = random.Random(seed), list[LabelledState]()
    for is_good in (True, False):
        kind = [step for step in known if (step.value >= LEAST_VALUE) == is_good]
        for step in rng.sample(kind, min(num_states, len(kind))):
            states.append(LabelledState(id, question, step, step.value, weight))
    return states


def split_states(
    states: Iterable[LabelledState], share: float
) -> tuple[list[LabelledState], list[LabelledState]]:
    """Return the states to learn from, and those of the held-out questions.

    Raises:
        InputError: The states to learn from are not of both kinds.
    """
    training, held_out = list[LabelledState](), list[LabelledState]()
    for each in states:
        (held_out if is_held_out_question(each.question, share) else training).append(each)
    if not has_both_kinds(training):
        raise InputError(
            f"the runs have {len(training):,} steps to learn from, and need steps that lead to right answers "
            "and steps that do not: name runs of airrag with several rollouts, in which some answers are "
            "right."
        )
    return training, held_out


def has_both_kinds(states: Sequence[LabelledState]) -> bool:
    """Return whether there are states that lead to right answers, and others."""
    return len({each.is_good for each in states}) == 2


def result_of(states: Sequence[LabelledState], rewards: Sequence[float]) -> RewardResult:
    """Return how well rewards separate states of both kinds."""

    def area(values: Sequence[float], of: Sequence[LabelledState]) -> RocArea:
        pairs = [(value, each.is_good) for value, each in zip(values, of, strict=True)]
        good, bad = ([value for value, is_good in pairs if is_good == kind] for kind in (True, False))
        return roc_area(good, bad)

    ends = [(value, each) for value, each in zip(rewards, states, strict=True) if each.step.is_end]
    own, answers = [value for value, _ in ends], [each for _, each in ends]
    consistency = [each.step.reward for each in answers]
    return RewardResult(len(states), area(rewards, states), area(own, answers), area(consistency, answers))
