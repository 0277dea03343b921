"""Find the threshold that gives a wanted number of searches per question, for one model and method.

The numbers that are compared with a threshold (probabilities, entropies times attention) have a different
range for every model and every variant of a method, so a threshold from a paper does not transfer to another
model. The number of searches per question means the same everywhere.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from operator import attrgetter
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from askance.ask import Engine
from askance.configuration.catalogue import METHODS
from askance.configuration.methods import method_class
from askance.core.errors import InputError
from askance.core.extensions import known_names
from askance.core.parameters import (
    SearchParameter,
    describe_type,
    name_of,
    parameter_field,
    parameter_range,
    search_parameter,
)
from askance.core.types import Question
from askance.training.calibration.bracket import (
    CalibrationTarget,
    Measurement,
    by_expected_searches,
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
from askance.training.calibration.trials import CalibratedMethod, OnProgress, Trial, Trials

MAX_TRIALS = 7
TOLERANCE = 0.05
_SEARCHES = attrgetter("searches")


@dataclass(frozen=True, slots=True)
class EvaluatedValue:
    """The mean numbers of searches and tokens for one value, over the questions that never failed.

    Tokens are prompt tokens plus generated tokens. Cached tokens count too, because a value that is tried
    later finds more prompt prefixes in the cache.
    """

    value: float
    searches: float
    searches_interval: Interval
    tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(CalibratedMethod):
    """The value of a parameter that leads to a wanted number of searches per question.

    Attributes:
        value: The calibrated value. It is None if no value reaches the wanted number; `remark` then says why.
        interval: The 95 % interval of the value, from resampling the questions.
        is_interval_cut: Whether an end of the interval is the outermost value tried, so that the true end may
            lie beyond it.
        table: Every value tried, in ascending order.
    """

    wanted: float
    value: float | None
    interval: Interval | None
    is_interval_cut: bool
    table: tuple[EvaluatedValue, ...]


async def calibrate(
    engine: Engine,
    questions: Sequence[Question],
    searches_per_question: float,
    *,
    parameter: str | None = None,
    max_trials: int = MAX_TRIALS,
    tolerance: float = TOLERANCE,
    in_flight: int = 1,
    on_progress: OnProgress = lambda trial, value, done, searches: None,
) -> Calibration:
    """Find the value of a parameter of the engine's method that leads to a wanted mean number of searches.

    The method's own value is tried first. Values further out follow until they bracket the wanted number,
    then values in between, chosen among the numbers that decisions recorded. The last trials widen the range
    on both sides, to determine the interval. The result is interpolated after the means have been made
    monotone. All randomness comes from the engine's seed.

    Args:
        parameter: The parameter's name; by default the method's own search parameter (see
            `askance.core.parameters.search_parameter`).
        max_trials: The greatest number of values tried; each trial answers all questions.
        tolerance: The greatest accepted difference from the wanted number, in searches per question.
        in_flight: The number of questions answered concurrently; it affects only the time.
        on_progress: Called when a trial starts, while questions finish, and when it ends.

    Raises:
        InputError: There are no questions, the method or parameter can't be calibrated, or a number is out of
            range.
        AskanceError: Every question failed.
    """
    method: Any = engine.method
    method_name = name_of(type(method))
    chosen = choose_parameter(type(method), parameter)
    target = _calibration_target(type(method), chosen, searches_per_question, tolerance)
    if not questions or max_trials < 1:
        raise InputError("nothing to calibrate with: give at least one question and one trial.")
    start = chosen.value_of(method)
    if start is None or not isfinite(start):
        given: float | None = getattr(method, chosen.name)
        shown = "none" if given is None else f"{given:g}"
        raise InputError(
            f"parameter {chosen.name}={shown} of method {method_name}: calibration can't start there; start "
            f"from a finite number{_scale_remark(method, chosen) if given is None else ''}."
        )
    trials = Trials(engine, chosen.name, questions, in_flight, on_progress)
    value: float | None = float(start)
    while value is not None and len(trials.completed) < max_trials:
        await trials.run(len(trials.completed) + 1, value)
        measurements = _measurements(trials)
        target = replace(target, is_rising=measured_direction(measurements, expected=target.is_rising))
        value = next_value(target, measurements)
        if value is None and _is_reached(target, measurements):
            value = widening_value(target, measurements, _spread(target, trials, measurements))
    return _calibration(trials, target)


def calibrated_methods() -> dict[str, str]:
    """Return the parameter to calibrate for each method that has one, including methods of plug-ins."""
    parameters: dict[str, SearchParameter | None] = {}
    for name in known_names("methods", METHODS):
        with suppress(InputError):  # a plug-in that can't be imported
            parameters[name] = search_parameter(method_class(name))
    return {name: parameter.name for name, parameter in parameters.items() if parameter is not None}


def choose_parameter(cls: type[Any], name: str | None) -> SearchParameter:
    """Return the parameter to calibrate: the named parameter, or by default the method's search parameter.

    For any other parameter, only trials show whether a greater value means more searches.

    Raises:
        InputError: The method has no such parameter, or the parameter is not a number.
    """
    own = search_parameter(cls)
    if name is None and own is None:
        known = ", ".join(f"{method} ({parameter})" for method, parameter in calibrated_methods().items())
        raise InputError(
            f"method {name_of(cls)} has no parameter that decides how often it searches; these methods do: "
            f"{known}."
        )
    chosen = own if own is not None and name in (None, own.name) else SearchParameter(name or "")
    parameter_field(cls, chosen.name)
    hint = get_type_hints(cls)[chosen.name]
    if hint not in (float, float | None):
        raise InputError(
            f"parameter {chosen.name} of method {name_of(cls)} takes {describe_type(hint)}: only a float can "
            "be calibrated."
        )
    return chosen


def _scale_remark(method: object, parameter: SearchParameter) -> str:
    """Return a remark on the settings under which nothing is compared with a threshold, if there are any."""
    settings = ", ".join(f"{name}={getattr(method, name)}" for name in parameter.belongs_to)
    return f" ({settings}: compared with no threshold)" if settings else ""


def _calibration_target(
    cls: type[Any], parameter: SearchParameter, wanted: float, tolerance: float
) -> CalibrationTarget:
    for what, number in (("searches per question", wanted), ("tolerance", tolerance)):
        if not isfinite(number) or number < 0:
            raise InputError(f"{what}: {number:g} is out of range; give a number of 0 or more.")
    low, high = parameter_range(parameter_field(cls, parameter.name))
    return CalibrationTarget(wanted, parameter.rises, low, high, tolerance)


def _measurements(trials: Trials) -> list[Measurement]:
    means = _counts_per_question(trials.completed, trials.answered(), _SEARCHES).mean(axis=1)
    return [
        Measurement(trial.value, float(mean), trial.decisions, len(trial.usages))
        for trial, mean in zip(trials.completed, means, strict=True)
    ]


def _counts_per_question(runs: Sequence[Trial], counted: Sequence[int], count: Any) -> NDArray[np.float64]:
    """Return a count for each trial and each question that never failed: shape [trials, questions]."""
    return np.array([[count(trial.usages[index]) for index in counted] for trial in runs], dtype=np.float64)


def _is_reached(target: CalibrationTarget, measurements: Sequence[Measurement]) -> bool:
    ordered = monotone(
        [measured.searches for measured in by_expected_searches(measurements, is_rising=target.is_rising)]
    )
    return target.is_met_by(measurements) or ordered[0] < target.wanted < ordered[-1]


def _spread(target: CalibrationTarget, trials: Trials, measurements: Sequence[Measurement]) -> float:
    """Return twice the standard error of the mean number of searches, at the value that came closest."""
    closest = min(
        range(len(measurements)), key=lambda index: abs(measurements[index].searches - target.wanted)
    )
    usages = [usage for usage in trials.completed[closest].usages if usage is not None]
    return float(2 * np.std([usage.searches for usage in usages]) / len(usages) ** 0.5)


def _calibration(trials: Trials, target: CalibrationTarget) -> Calibration:
    measurements, counted = _measurements(trials), trials.answered()
    ordered = by_expected_searches(measurements, is_rising=target.is_rising)
    values, searches = [measured.value for measured in ordered], [measured.searches for measured in ordered]
    runs = [next(trial for trial in trials.completed if trial.value == value) for value in values]
    samples = resampled_means(_counts_per_question(runs, counted, _SEARCHES), trials.engine.seed)
    sizes = _counts_per_question(runs, counted, lambda usage: usage.prompt_tokens + usage.generated_tokens)
    intervals = [percentile_interval(row) for row in samples]
    table = map(EvaluatedValue, values, searches, intervals, sizes.mean(axis=1).tolist())
    is_reached = _is_reached(target, measurements)
    value = float(f"{value_at(target.wanted, values, searches):.4g}") if is_reached else None
    interval, is_cut = _interval(target, values, samples) if is_reached else (None, False)
    return Calibration(
        **trials.description(value),
        wanted=target.wanted,
        value=value,
        interval=interval,
        is_interval_cut=is_cut,
        table=tuple(sorted(table, key=lambda row: row.value)),
        num_counted=len(counted),
        remark=(_jump_remark if is_reached else _out_of_reach_remark)(trials.parameter, target, measurements),
    )


def _interval(
    target: CalibrationTarget, values: Sequence[float], samples: NDArray[np.float64]
) -> tuple[Interval, bool]:
    resampled = [value_at(target.wanted, values, means) for means in samples.T.tolist()]
    low, high = percentile_interval(resampled)
    ends = {end for end in (min(values), max(values)) if end not in (target.low, target.high)}
    return (float(f"{low:.4g}"), float(f"{high:.4g}")), bool(ends & {low, high})


def _jump_remark(parameter: str, target: CalibrationTarget, measurements: Sequence[Measurement]) -> str:
    """Return a remark if no value tried came within the tolerance, or else an empty string."""
    if target.is_met_by(measurements):
        return ""
    ordered = by_expected_searches(measurements, is_rising=target.is_rising)
    index = sum(mean < target.wanted for mean in monotone([measured.searches for measured in ordered]))
    fewer, more = ordered[index - 1], ordered[index]
    return (
        f"no value tried gave {target.wanted:g}: it lies between "
        f"{fewer.searches:.2f} ({parameter}={fewer.value:g}) and "
        f"{more.searches:.2f} ({parameter}={more.value:g}). More questions make such jumps smaller."
    )


def _out_of_reach_remark(
    parameter: str, target: CalibrationTarget, measurements: Sequence[Measurement]
) -> str:
    least, most = (pick(measurements, key=lambda measured: measured.searches) for pick in (min, max))
    if next_value(target, measurements) is not None:
        why = "more trials may reach further"
    elif least.searches == most.searches:
        why = f"{parameter} changes nothing here"
    elif target.wanted < least.searches:
        why = "a search that a method always starts with counts"
    else:
        why = "it does not search more often"
    low, high = (f"{measured.searches:.2f} ({parameter}={measured.value:g})" for measured in (least, most))
    reached = f"{low} to {high}"
    return (
        f"{target.wanted:g} searches per question are out of reach: the values tried give {reached}; {why}."
    )
