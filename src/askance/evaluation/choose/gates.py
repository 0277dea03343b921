"""All gates, guards and other policies over recorded outcomes, on one footing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, nan

import numpy as np

from askance.core.errors import InputError, UnknownName
from askance.evaluation.choose.outcomes import MEMORY, READ, SEVERAL, RecordedOutcome
from askance.evaluation.choose.policies import (
    Measured,
    Questions,
    better_always,
    cross_validation,
    measure_answers,
    measure_choice,
    measure_gate,
    nearest,
    routed,
)
from askance.methods.gates.signals import Gate, MissingSignal, Numbers, Signals

Score = Callable[[str, Sequence[str]], float | None]
"""A metric: a function of an answer and of the accepted answers."""
ROUTER, NEAREST, THREE_WAYS = "router", "nearest questions", "recorded router, three ways"
BETTER = "better constant"
BEST = "the better of both"
LEAST_QUESTIONS = 10
"""The least number of questions with which a threshold can be chosen and measured."""


@dataclass(frozen=True, slots=True)
class GateResults:
    """The score, cost and gain of every policy on the same questions.

    Attributes:
        models: The models that answered, as far as they were recorded.
        constants: The policies that need no signal: never, always, the better constant policy and the other
            methods; last the better of both answers, which is known only afterwards.
        gates, guards: Those that could be measured.
        lacking: The reason why a gate or guard could not be measured, by name.
        failures: The first error of each gate that failed for some questions, by name.
    """

    name: str
    metric: str
    num_questions: int
    num_to_choose: int
    models: tuple[str, ...]
    constants: tuple[Measured, ...]
    gates: tuple[Measured, ...]
    guards: tuple[Measured, ...]
    lacking: Mapping[str, str]
    failures: Mapping[str, str]


def measure_gates(
    name: str,
    outcomes: Sequence[RecordedOutcome],
    dev: Sequence[RecordedOutcome],
    metric: str,
    score: Score,
    gates: Mapping[str, Gate],
    guards: Mapping[str, Gate],
    only: Sequence[str] = (),
) -> GateResults:
    """Measure every policy on recorded outcomes.

    Args:
        dev: The outcomes on which thresholds are chosen; empty for cross-validation.
        only: The names of the gates and guards to measure; empty for all.

    Raises:
        UnknownName: There is no such gate or guard.
        InputError: There are too few questions, or the metric applies to none of them.
    """
    kept, questions = _questions(outcomes, dev, score)
    signals = [each.signals for each in kept]
    recorded = dict.fromkeys(name for each in signals for name in each.numbers if name not in gates)
    gates = {**gates, **{name: partial(Signals.number, name=name) for name in recorded}}
    for wanted in only:
        if wanted not in (known := [*gates, *guards]):
            raise UnknownName("gate", wanted, known)
    problems = dict[str, str]()

    def columns(gates: Mapping[str, Gate]) -> dict[str, Numbers]:
        names = [name for name in gates if name in only or not only]
        values = {name: _values(name, gates[name], signals, problems) for name in names}
        return {name: each for name, each in values.items() if np.isfinite(each[questions.measured]).any()}

    of_gates, of_guards = columns(gates), columns(guards)
    measured = [measure_gate(each, questions, values) for each, values in of_gates.items()]
    by_guards = [measure_gate(each, questions, values, is_guard=True) for each, values in of_guards.items()]
    if len(of_gates) > 1:
        measured.append(measure_choice(ROUTER, questions, routed(questions, list(of_gates.values()))))
    if all(questions.texts) and not only:
        measured.append(measure_choice(NEAREST, questions, nearest(questions)))
    if of_gates and of_guards:
        both = [*of_gates.values(), *of_guards.values()]
        by_guards.append(measure_choice(ROUTER, questions, routed(questions, both), searches_all=True))
    return GateResults(
        name=name,
        metric=metric,
        num_questions=int(questions.measured.sum()),
        num_to_choose=len(dev),
        models=tuple(sorted({each.model for each in kept} - {""})),
        constants=tuple(_constants(questions, [each.router for each in kept])),
        gates=tuple(measured),
        guards=tuple(by_guards),
        lacking={name: why for name, why in problems.items() if name not in (*of_gates, *of_guards)},
        failures={name: why for name, why in problems.items() if name in (*of_gates, *of_guards)},
    )


def _questions(
    outcomes: Sequence[RecordedOutcome], dev: Sequence[RecordedOutcome], score: Score
) -> tuple[list[RecordedOutcome], Questions]:
    every, is_dev = [*outcomes, *dev], np.arange(len(outcomes) + len(dev)) >= len(outcomes)
    # None, where the metric does not apply, becomes a number that is not finite.
    memory = np.array([score(each.answers[MEMORY].answer, each.golds) for each in every], dtype=np.float64)
    applies = np.isfinite(memory)
    for goal, part in {"measure": ~is_dev, **({"choose thresholds on": is_dev} if dev else {})}.items():
        if (num := int((applies & part).sum())) < LEAST_QUESTIONS:
            least = f"it takes at least {LEAST_QUESTIONS} to which the metric applies"
            raise InputError(f"{num} questions to {goal} are too few: {least}.")
    kept, is_dev = [each for each, keeps in zip(every, applies, strict=True) if keeps], is_dev[applies]
    shared = [method for method in kept[0].answers if all(method in each.answers for each in kept)]

    def columns(number_of: Callable[[RecordedOutcome, str], float | None]) -> dict[str, Numbers]:
        return {name: np.array([number_of(each, name) for each in kept], dtype=np.float64) for name in shared}

    trains, tests = (is_dev[None], ~is_dev[None]) if dev else cross_validation(len(kept))
    return kept, Questions(
        tuple(each.signals.question for each in kept),
        columns(lambda each, name: score(each.answers[name].answer, each.golds)),
        columns(lambda each, name: each.cost("searches", name)),
        columns(lambda each, name: each.cost("tokens", name)),
        trains,
        tests,
    )


def _values(name: str, gate: Gate, signals: Sequence[Signals], problems: dict[str, str]) -> Numbers:
    """Return the number of a gate for each question, and note the first problem if some have none."""
    values = np.full(len(signals), nan)
    for at, each in enumerate(signals):
        try:
            found = gate(each)
            value = float(np.max(found) if np.size(found) else 0.0)
            problem = f"it returned {value}"
        except MissingSignal as missing:
            value, problem = each.numbers.get(name, nan), f"{missing}"
        except Exception as error:  # a gate may be somebody else's code
            value, problem = nan, f"{type(error).__name__}: {error}"
        values[at] = value
        if not isfinite(value):
            problems.setdefault(name, problem)
    return values


def _constants(questions: Questions, routers: Sequence[tuple[float, ...]]) -> list[Measured]:
    """Return the policies without a threshold."""
    no_split = np.zeros((1, len(routers)), dtype=np.bool_)
    choices = {"never": no_split, "always": ~no_split, BETTER: better_always(questions)}
    rows = [measure_choice(name, questions, each, drafts=False) for name, each in choices.items()]
    others = [method for method in questions.scores if method not in (MEMORY, READ)]
    rows += [measure_answers(each, questions, {each: np.ones(len(routers))}) for each in others]
    if all(routers) and SEVERAL in others:
        ways = np.argmax(routers, axis=1)
        taken = {method: (ways == way) * 1.0 for way, method in enumerate((MEMORY, READ, SEVERAL))}
        rows.append(measure_answers(THREE_WAYS, questions, taken))
    return [*rows, measure_choice(BEST, questions, (questions.gains > 0)[None])]
