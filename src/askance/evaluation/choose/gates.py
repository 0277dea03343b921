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
    routed,
)
from askance.methods.gates.signals import Gate, MissingSignal, Numbers, Signals

Score = Callable[[str, Sequence[str]], float | None]
"""A metric: a function of an answer and of the accepted answers."""
ROUTER, THREE_WAYS = "router", "recorded router, three ways"
BETTER = "better constant"
BEST = "the better of both"
LEAST_QUESTIONS = 10
"""The least number of questions with which a threshold can be chosen and measured."""


@dataclass(frozen=True, slots=True)
class GateResults:
    """The score, cost and gain of every policy on the same questions.

    Attributes:
        constants: The policies that need no signal: never, always, the better constant policy and the other
            methods; last the better of both answers, which only a guess can reach.
        gates, guards: Those that could be measured.
        lacking: The reason why a gate or guard could not be measured, by name.
        failures: The first error of each gate that failed for some questions, by name.
    """

    name: str
    metric: str
    num_questions: int
    num_to_choose: int
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
    """Return what every policy is worth on recorded outcomes.

    Args:
        dev: The outcomes on which thresholds are chosen; empty for cross-validation.
        only: The names of the gates and guards to measure; empty for all.

    Raises:
        UnknownName: There is no such gate or guard.
        InputError: There are too few questions, or the metric applies to none of them.
    """
    questions = _questions(outcomes, dev, score)
    signals = [each.signals for each in questions.outcomes]
    recorded = dict.fromkeys(name for each in signals for name in each.numbers if name not in gates)
    gates = {**gates, **{name: partial(Signals.number, name=name) for name in recorded}}
    for wanted in only:
        if wanted not in (known := [*gates, *guards]):
            raise UnknownName("gate", wanted, known)
    gates, guards = (
        {name: gate for name, gate in each.items() if name in only or not only} for each in (gates, guards)
    )
    lacking, failures = dict[str, str](), dict[str, str]()

    def values_of(gates: Mapping[str, Gate]) -> dict[str, Numbers]:
        found = {}
        for gate_name, gate in gates.items():
            values, problems = _values(gate_name, gate, signals)
            if np.isfinite(values[questions.tests.any(axis=0)]).any():
                found[gate_name] = values
                if problems:
                    failures[gate_name] = problems[0]
            else:
                lacking[gate_name] = problems[0]
        return found

    of_gates, of_guards = values_of(gates), values_of(guards)
    measured = [measure_gate(each, questions, values) for each, values in of_gates.items()]
    by_guards = [measure_gate(each, questions, values, is_guard=True) for each, values in of_guards.items()]
    if len(of_gates) > 1:
        measured.append(measure_choice(ROUTER, questions, routed(questions, list(of_gates.values()))))
    if of_gates and of_guards:
        columns = [*of_gates.values(), *of_guards.values()]
        by_guards.append(measure_choice(ROUTER, questions, routed(questions, columns), searches_all=True))
    return GateResults(
        name=name,
        metric=metric,
        num_questions=int(questions.tests.any(axis=0).sum()),
        num_to_choose=len(dev),
        constants=tuple(_constants(questions)),
        gates=tuple(measured),
        guards=tuple(by_guards),
        lacking=lacking,
        failures=failures,
    )


def _questions(
    outcomes: Sequence[RecordedOutcome], dev: Sequence[RecordedOutcome], score: Score
) -> Questions:
    every = [*outcomes, *dev]
    shared = [method for method in every[0].answers if all(method in each.answers for each in every)]
    columns = {
        method: np.array([score(each.answers[method], each.golds) for each in every], dtype=np.float64)
        for method in shared
    }  # None, where the metric does not apply, becomes a number that is not finite
    applies = np.isfinite(columns[MEMORY])
    is_dev = np.arange(len(every)) >= len(outcomes)
    kept = tuple(each for each, keeps in zip(every, applies, strict=True) if keeps)
    if (num := int((applies & ~is_dev).sum())) < LEAST_QUESTIONS or (dev and not applies[is_dev].any()):
        raise InputError(
            f"{num} questions are too few: choosing a threshold and measuring it takes at least "
            f"{LEAST_QUESTIONS} to which the metric applies."
        )
    trains, tests = (
        cross_validation(len(kept)) if not dev else (is_dev[applies][None], ~is_dev[applies][None])
    )
    return Questions(kept, {name: values[applies] for name, values in columns.items()}, trains, tests)


def _values(name: str, gate: Gate, signals: Sequence[Signals]) -> tuple[Numbers, list[str]]:
    """Return the number of a gate for each question, and what went wrong for those that have none."""
    values, problems = np.full(len(signals), nan), list[str]()
    for at, each in enumerate(signals):
        try:
            found = gate(each)
            value = float(max(found, default=0.0)) if isinstance(found, Sequence) else float(found)
            problem = "" if isfinite(value) else f"it returned {value}"
        except MissingSignal as missing:
            value, problem = each.numbers.get(name, nan), f"{missing}"
        except Exception as error:  # a gate may be somebody else's code
            value, problem = nan, f"{type(error).__name__}: {error}"
        if isfinite(value):
            values[at] = value
        else:
            problems.append(problem)
    return values, problems


def _constants(questions: Questions) -> list[Measured]:
    """Return the policies without a threshold."""
    routers = [each.router for each in questions.outcomes]
    memory, read, num = questions.scores[MEMORY], questions.scores[READ], len(questions.outcomes)
    no_split = np.zeros((1, num), dtype=np.bool_)
    rows = [
        measure_choice("never", questions, no_split, drafts=False),
        measure_choice("always", questions, ~no_split, drafts=False),
        measure_choice(BETTER, questions, better_always(questions), drafts=False),
    ]
    others = [method for method in questions.scores if method not in (MEMORY, READ)]
    rows += [measure_answers(each, questions, questions.scores[each], [each] * num) for each in others]
    if all(routers) and SEVERAL in others:
        methods = [(MEMORY, READ, SEVERAL)[int(np.argmax(each))] for each in routers]
        pairs = enumerate(methods)
        scores = np.array([questions.scores[method][at] for at, method in pairs])
        rows.append(measure_answers(THREE_WAYS, questions, scores, methods))
    return [*rows, measure_choice(BEST, questions, (read > memory)[None])]
