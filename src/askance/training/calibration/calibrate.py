"""Calibration: which threshold gives a wanted number of searches a question, for one model and method.

The numbers that a threshold is held against (probabilities, entropies times attention) lie elsewhere for
every model and every reading of a method, so a threshold from a paper says nothing about another model. The
number of searches a question does mean the same everywhere.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from askance.ask import Engine
from askance.core.errors import AskanceError, InputError
from askance.core.extensions import known_names
from askance.core.parameters import (
    SearchParameter,
    describe_type,
    name_of,
    parameter_field,
    parameter_range,
    search_parameter,
    titled,
)
from askance.core.types import Question
from askance.registry import METHODS, method_class
from askance.training.calibration.bracket import (
    Aim,
    Tried,
    by_searches,
    measured_direction,
    next_value,
    widening_value,
)
from askance.training.calibration.curve import (
    Interval,
    monotone,
    percentile_interval,
    resampled_means,
    value_at,
)
from askance.training.calibration.trials import Failure, Progress, Trial, Trials

MAX_TRIALS = 7
TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One value of the parameter: mean searches and mean tokens a question, over those that never failed.

    Tokens are those of prompts and those generated, whether or not beginnings of prompts were found again: a
    value that is tried later finds more of them.
    """

    value: float
    searches: float
    searches_interval: Interval
    tokens: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The value of a parameter that leads to a wanted number of searches a question.

    Attributes:
        method: with all its parameters, as its repr shows it; the calibrated one at `value` where there is
            one.
        title: its name with its profile, as tables show it.
        value: None when no value tried leads there; `remark` says what can be reached.
        interval: 95 %, by resampling the questions.
        is_interval_cut: an end of the interval is the last value tried, so the true one may lie beyond.
        table: every value tried, in ascending order.
        failures: one for each question and value that failed. Such questions count for no value.
        num_counted: how many of the `num_questions` never failed.
        remark: what a user should know of the result; may be empty.
    """

    method_name: str
    method: str
    title: str
    model: str
    parameter: str
    wanted: float
    value: float | None
    interval: Interval | None
    is_interval_cut: bool
    table: tuple[Evaluated, ...]
    failures: tuple[Failure, ...]
    num_questions: int
    num_counted: int
    remark: str


async def calibrate(
    engine: Engine,
    questions: Sequence[Question],
    searches_per_question: float,
    *,
    parameter: str | None = None,
    max_trials: int = MAX_TRIALS,
    tolerance: float = TOLERANCE,
    in_flight: int = 1,
    progress: Progress = lambda trial, value, done, searches: None,
) -> Calibration:
    """Choose the value of a parameter of the engine's method that leads to `searches_per_question` on
    average.

    The value that the method has is tried first, then values further out until the
    number wanted is enclosed, then values between, chosen among the numbers that decisions recorded, and at
    last values on either side, for the interval. The result is interpolated, after the means have been made
    monotone. Nothing in it is random but for the engine's seed.

    Args:
        parameter: the method's own (see `askance.core.parameters.search_parameter`) unless named.
        max_trials: most values tried; each answers all questions.
        tolerance: searches a question; a value this close ends the search.
        in_flight: questions asked at the same time, which changes nothing but how long it takes.

    Raises:
        InputError: no questions, a method or parameter that can't be calibrated, a number that makes no
            sense.
        AskanceError: every question failed.
    """
    method: Any = engine.method
    method_name = name_of(type(method))
    chosen = chosen_parameter(type(method), parameter)
    aim = _aim(type(method), chosen, searches_per_question, tolerance)
    if not questions or max_trials < 1:
        raise InputError("there is nothing to calibrate with: give at least one question and one trial.")
    start = chosen.value_of(method)
    if start is None or not isfinite(start):
        given: float | None = getattr(method, chosen.name)
        told = "none" if given is None else f"{given:g}"
        raise InputError(
            f"parameter {chosen.name}={told} of method {method_name}: nothing can be found from there; begin "
            f"at a number that is not infinite{_of_scale(method, chosen) if given is None else ''}."
        )
    trials = Trials(engine, chosen.name, questions, in_flight, progress)
    tried: list[Trial] = []
    failures: list[Failure] = []
    value: float | None = float(start)
    while value is not None and len(tried) < max_trials:
        trial, failed = await trials.run(len(tried) + 1, value)
        tried.append(trial)
        failures += failed
        means = _means(tried, failures)
        aim = replace(aim, rises=measured_direction(means, believed=aim.rises))
        value = next_value(aim, means)
        if value is None and _is_reached(aim, means):
            value = widening_value(aim, means, _spread(aim, tried, means))
    return _calibration(method_name, trials, aim, tried, failures)


def calibrated_methods() -> dict[str, str]:
    """The methods that can be calibrated, those of plug-ins too, with the parameter of each."""
    parameters: dict[str, SearchParameter | None] = {}
    for name in known_names("methods", METHODS):
        with suppress(InputError):  # a plug-in that can't be imported
            parameters[name] = search_parameter(method_class(name))
    return {name: parameter.name for name, parameter in parameters.items() if parameter is not None}


def chosen_parameter(cls: type[Any], name: str | None) -> SearchParameter:
    """The parameter to turn: the method's own, or another number, whose direction the trials will show.

    Raises:
        InputError: the method has no such parameter, or one that is no number.
    """
    own = search_parameter(cls)
    if name is None and own is None:
        known = ", ".join(f"{each} ({parameter})" for each, parameter in calibrated_methods().items())
        raise InputError(
            f"method {name_of(cls)} has no parameter that decides how often it searches; these have "
            f"one: {known}."
        )
    chosen = own if own is not None and name in (None, own.name) else SearchParameter(name or "")
    parameter_field(cls, chosen.name)
    hint = get_type_hints(cls)[chosen.name]
    if hint not in (float, float | None):
        raise InputError(
            f"parameter {chosen.name} of method {name_of(cls)} takes {describe_type(hint)}: only a number "
            "that may have a fraction (float) can be calibrated."
        )
    return chosen


def _of_scale(method: object, parameter: SearchParameter) -> str:
    """What else stands in the way where a parameter has no value of its own."""
    told = ", ".join(f"{name}={getattr(method, name)}" for name in parameter.scale)
    return f" ({told}: held against none)" if told else ""


def _aim(cls: type[Any], parameter: SearchParameter, wanted: float, tolerance: float) -> Aim:
    for what, number in (("searches a question", wanted), ("tolerance", tolerance)):
        if not isfinite(number) or number < 0:
            raise InputError(f"{what}: {number:g} makes no sense; give a number of 0 or more.")
    low, high = parameter_range(parameter_field(cls, parameter.name))
    return Aim(wanted, parameter.rises, low, high, tolerance)


def _counted(tried: Sequence[Trial]) -> list[int]:
    """The questions that never failed, so that every value is judged by the same ones."""
    return [
        at for at, usages in enumerate(zip(*(t.usages for t in tried), strict=True)) if None not in usages
    ]


def _means(tried: Sequence[Trial], failures: Sequence[Failure]) -> list[Tried]:
    if not _counted(tried):
        raise AskanceError(
            f"no question was answered with every value tried; the first failure, {failures[0].question_id}: "
            f"{failures[0].error}"
        )
    searches = _per_question(tried, lambda usage: usage.searches).mean(axis=1)
    return [
        Tried(trial.value, float(mean), trial.decisions, len(trial.usages))
        for trial, mean in zip(tried, searches, strict=True)
    ]


def _per_question(tried: Sequence[Trial], count: Any) -> NDArray[np.float64]:
    """Shape [values, counted questions]."""
    counted = _counted(tried)
    return np.array([[count(trial.usages[at]) for at in counted] for trial in tried], dtype=np.float64)


def _is_reached(aim: Aim, means: Sequence[Tried]) -> bool:
    ordered = monotone([each.searches for each in by_searches(means, rises=aim.rises)])
    return aim.is_met(means) or ordered[0] < aim.wanted < ordered[-1]


def _spread(aim: Aim, tried: Sequence[Trial], means: Sequence[Tried]) -> float:
    """Two standard errors of the mean searches, at the value that came closest."""
    closest = min(range(len(means)), key=lambda at: abs(means[at].searches - aim.wanted))
    searches = _per_question([tried[closest]], lambda usage: usage.searches)
    return float(2 * searches.std() / len(searches[0]) ** 0.5)


def _calibration(
    method_name: str, trials: Trials, aim: Aim, tried: Sequence[Trial], failures: Sequence[Failure]
) -> Calibration:
    means = _means(tried, failures)
    ordered = by_searches(means, rises=aim.rises)
    values, searches = [each.value for each in ordered], [each.searches for each in ordered]
    runs = [next(trial for trial in tried if trial.value == value) for value in values]
    samples = resampled_means(_per_question(runs, lambda usage: usage.searches), trials.engine.seed)
    sizes = _per_question(runs, lambda usage: usage.prompt_tokens + usage.generated_tokens)
    intervals = [percentile_interval(row) for row in samples]
    table = map(Evaluated, values, searches, intervals, sizes.mean(axis=1).tolist())
    is_reached = _is_reached(aim, means)
    value = float(f"{value_at(aim.wanted, values, searches):.4g}") if is_reached else None
    interval, is_cut = _interval(aim, values, samples) if is_reached else (None, False)
    method: Any = trials.engine.method
    changed: dict[str, Any] = {} if value is None else {trials.parameter: value}
    return Calibration(
        method_name=method_name,
        method=repr(replace(method, **changed)),
        title=titled(method_name, getattr(method, "profile", "")),
        model=trials.engine.models["answer"].name,
        parameter=trials.parameter,
        wanted=aim.wanted,
        value=value,
        interval=interval,
        is_interval_cut=is_cut,
        table=tuple(sorted(table, key=lambda each: each.value)),
        failures=tuple(failures),
        num_questions=len(trials.questions),
        num_counted=len(_counted(tried)),
        remark=(_between if is_reached else _out_of_reach)(trials.parameter, aim, means),
    )


def _interval(aim: Aim, values: Sequence[float], samples: NDArray[np.float64]) -> tuple[Interval, bool]:
    found = [value_at(aim.wanted, values, means) for means in samples.T.tolist()]
    low, high = percentile_interval(found)
    ends = {end for end in (min(values), max(values)) if end not in (aim.low, aim.high)}
    return (float(f"{low:.4g}"), float(f"{high:.4g}")), bool(ends & {low, high})


def _between(parameter: str, aim: Aim, means: Sequence[Tried]) -> str:
    """What to know where no value tried came as close as asked for; else nothing."""
    if aim.is_met(means):
        return ""
    ordered = by_searches(means, rises=aim.rises)
    at = sum(mean < aim.wanted for mean in monotone([each.searches for each in ordered]))
    fewer, more = ordered[at - 1], ordered[at]
    return (
        f"no value tried gave {aim.wanted:g}: it lies between "
        f"{fewer.searches:.2f} ({parameter}={fewer.value:g}) and "
        f"{more.searches:.2f} ({parameter}={more.value:g}). More questions make such jumps smaller."
    )


def _out_of_reach(parameter: str, aim: Aim, means: Sequence[Tried]) -> str:
    least, most = (pick(means, key=lambda each: each.searches) for pick in (min, max))
    if next_value(aim, means) is not None:
        why = "more trials may reach further"
    elif least.searches == most.searches:
        why = f"{parameter} changes nothing here"
    elif aim.wanted < least.searches:
        why = "a search that a method always begins with counts"
    else:
        why = "it does not search more often"
    low, high = (f"{each.searches:.2f} ({parameter}={each.value:g})" for each in (least, most))
    reached = f"{low} to {high}"
    return f"{aim.wanted:g} searches a question are out of reach: the values tried give {reached}; {why}."
