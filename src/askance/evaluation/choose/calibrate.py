"""Calibrate a parameter of a method: try values of it on questions, and choose one by a goal.

All goals share one loop: the goal proposes the next value, all questions are answered with it, and in the end
the goal chooses a value from the table of trials.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from askance.ask import Engine
from askance.core.errors import InputError
from askance.core.parameters import (
    SearchParameter,
    describe_type,
    method_spec,
    name_of,
    parameter_field,
    parameter_range,
    search_parameter,
)
from askance.evaluation.choose.goals import ScoreGoal, SearchesGoal
from askance.evaluation.choose.trials import Interval, OnProgress, Trials
from askance.evaluation.datasets import Example
from askance.evaluation.statistics.compare import MeanInterval, mean_interval

MAX_TRIALS = 7


@dataclass(frozen=True, slots=True)
class TrialFailure:
    """A question that could not be answered with one value of the parameter."""

    question_id: str
    value: float
    error: str


@dataclass(frozen=True, slots=True)
class TriedValue:
    """The means for one value over the questions that count; there is no score if the goal has no metric."""

    value: float
    searches: MeanInterval
    tokens: float
    score: MeanInterval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The value of a parameter that a goal chose.

    Attributes:
        goal: What the value was chosen for, in words.
        method: The repr of the method with all parameters, including the calibrated value if there is one.
        value: The calibrated value. It is None if no value reaches the goal; `remark` then says why.
        interval: The 95 % interval of the value, from resampling the questions.
        table: Every value tried, in ascending order.
        failures: The failed questions, each with the value that was tried. A question that failed once is
            left out of all means.
        num_counted: The number of questions that count in all means.
        remark: A remark about the result for the user; may be empty.
    """

    goal: str
    method_name: str
    method: str
    model: str
    parameter: str
    value: float | None
    interval: Interval | None
    table: tuple[TriedValue, ...]
    failures: tuple[TrialFailure, ...]
    num_questions: int
    num_counted: int
    remark: str


async def calibrate(
    engine: Engine,
    examples: Sequence[Example],
    goal: SearchesGoal | ScoreGoal,
    *,
    parameter: str | None = None,
    max_trials: int = MAX_TRIALS,
    in_flight: int = 1,
    on_progress: OnProgress = lambda trial, value, done, searches: None,
) -> Calibration:
    """Find the value of a parameter of the engine's method that meets a goal.

    The method's own value is tried first or, if it is not a finite number, the end of the range that is
    nearest to 0. All randomness comes from the engine's seed.

    Args:
        parameter: The parameter's name; by default the method's own search parameter (see
            `askance.core.parameters.search_parameter`).
        max_trials: The greatest number of values tried; each trial answers all questions.
        in_flight: The number of questions answered concurrently; it affects only the time.
        on_progress: Called when a trial starts, while questions finish, and when it ends.

    Raises:
        InputError: There are no questions, the metric applies to none of them, or the method or parameter
            can't be calibrated.
        AskanceError: Every question failed, or an error that all questions would meet ended a trial.
    """
    method: Any = engine.method
    chosen = choose_parameter(type(method), parameter)
    if not examples or max_trials < 1:
        raise InputError("nothing to calibrate with: give at least one question and one trial.")
    low, high = parameter_range(parameter_field(type(method), chosen.name))
    trials = Trials(engine, chosen, (low, high), examples, goal.scoring)
    value, given = chosen.value_of(method), getattr(method, chosen.name)
    if value is None or not math.isfinite(value):
        if given is None and chosen.belongs_to:
            settings = ", ".join(f"{name}={getattr(method, name)}" for name in chosen.belongs_to)
            raise InputError(
                f"parameter {chosen.name}=none of method {name_of(type(method))} ({settings}): compared with "
                "no threshold. Choose other settings, or start from a number."
            )
        value = min(max(0.0, low), high)
    while value is not None and len(trials.completed) < max_trials:
        await trials.run(value, in_flight, on_progress)
        value = goal.next_value(trials)
    choice, counted = goal.choose(trials), trials.comparable()
    changed = {} if choice.value is None else {chosen.name: choice.value}
    return Calibration(
        goal=str(goal),
        method_name=name_of(type(method)),
        method=str(method_spec(replace(method, **changed), is_whole=True)),
        model=engine.models["answer"].name,
        parameter=chosen.name,
        value=choice.value,
        interval=choice.interval,
        table=tuple(
            TriedValue(
                trial.value,
                mean_interval(trial.searches.tolist()),
                float(trial.tokens.mean()),
                mean_interval(trial.scores.tolist()) if goal.scoring else None,
            )
            for trial in counted
        ),
        failures=tuple(TrialFailure(each.id, value, each.error) for value, each in trials.failures()),
        num_questions=len(examples),
        num_counted=len(counted[0].records),
        remark=choice.remark,
    )


def choose_parameter(cls: type[Any], name: str | None) -> SearchParameter:
    """Return the parameter to calibrate: the named parameter, or by default the method's search parameter.

    For any other parameter, only trials show whether a greater value means more searches.

    Raises:
        InputError: The method has no such parameter, or the parameter is not a number.
    """
    own = search_parameter(cls)
    if name is None and own is None:
        raise InputError(f"method {name_of(cls)} has no parameter that decides how often it searches.")
    chosen = own if own is not None and name in (None, own.name) else SearchParameter(name or "")
    parameter_field(cls, chosen.name)
    hint = get_type_hints(cls)[chosen.name]
    if hint not in (float, float | None):
        raise InputError(
            f"parameter {chosen.name} of method {name_of(cls)} takes {describe_type(hint)}: only a float can "
            "be calibrated."
        )
    return chosen
