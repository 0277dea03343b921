"""Calibrate a parameter of a method: try values of it on questions, and choose one by a goal.

All goals share one loop: the goal proposes the next value, all questions are answered with it, and in the end
the goal chooses a value from the table of trials.

A threshold can also be found from a single trial, in which it never fires (`measure`): one that is given as a
percentile or as a number of searches per question is a quantile of the scores (`KeptScores.threshold`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Annotated, Any, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from askance.ask import Engine
from askance.core.errors import AskanceError, InputError, ThresholdError
from askance.core.parameters import (
    RELATIVE,
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
from askance.evaluation.statistics.compare import MeanInterval, Numbers, mean_interval, percentile_interval

MAX_TRIALS = 7
LEAST_DECISIONS = 20
"""The least number of decisions by which a threshold is judged to always or never fire."""
_RESAMPLES, _MOST_DRAWN = 2000, 100_000
"""The number of resamples, and the number of scores that are drawn at once."""
_Finite = Annotated[float, Field(allow_inf_nan=False)]


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
            place = f"parameter {chosen.name}=none of method {name_of(type(method))} ({settings})"
            remedy = "Choose other settings, or start from a number."
            raise InputError(f"{place}: compared with no threshold. {remedy}")
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
        place = f"parameter {chosen.name} of method {name_of(cls)}"
        raise InputError(f"{place} takes {describe_type(hint)}: only a float can be calibrated.")
    return chosen


class KeptScores(BaseModel):
    """The scores that a method compared with a threshold that never fired, for one model.

    Attributes:
        key: The model, the method and the parameters that the threshold belongs to.
        source: The questions, the model and the date, for messages.
        searches: The mean number of searches per question, none of which the threshold caused.
        sentences: For each question, the score of each sentence that is nearest to a search.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    key: str
    fingerprint: str
    source: str
    searches: Annotated[_Finite, Field(ge=0)]
    sentences: Annotated[tuple[tuple[_Finite, ...], ...], Field(min_length=1)]

    @property
    def most_searches(self) -> float:
        """The mean number of searches per question if every sentence is searched for."""
        return self.searches + sum(map(len, self.sentences)) / len(self.sentences)

    def threshold(self, wanted: str, method: type[Any]) -> float:
        """Return the threshold of a method that leads to what is wanted (see `RELATIVE`).

        Raises:
            ThresholdError: The percentile is not from 0 to 100, or no threshold leads to so many searches.
        """
        scores, level = self._scores_and_level(wanted, method)
        always, never = firing_ends(method)
        if level in (0, 1):
            return never if level else always
        return (-1 if always > never else 1) * float(np.quantile(scores, level))

    def find(self, wanted: str, method: type[Any]) -> tuple[float, Interval, Interval]:
        """Return a threshold with its uncertainty (see `threshold`).

        Returns:
            The threshold, its 95 % interval from resampling the questions, and, for a percentile, the 95 %
            interval of the fraction of as many other questions for which it fires.
        """
        value, (scores, level) = self.threshold(wanted, method), self._scores_and_level(wanted, method)
        if level in (0, 1):
            return value, (value, value), (1 - level, 1 - level)
        always, never = firing_ends(method)
        random, num, sign = np.random.default_rng(0), len(scores), -1 if always > never else 1
        rows = max(1, _MOST_DRAWN // scores.size)
        sizes = [min(rows, _RESAMPLES - done) for done in range(0, _RESAMPLES, rows)]
        draws = (scores[random.integers(num, size=(size, num))].reshape(size, -1) for size in sizes)
        interval = percentile_interval(sign * np.hstack([np.quantile(each, level, axis=1) for each in draws]))
        # The share of a population beyond an order statistic has a beta distribution.
        shares = random.beta((1 - level) * (num - 1) + 1, level * (num - 1) + 1, size=_RESAMPLES)
        shares = random.binomial(num, shares) / num  # of as many other questions
        return value, interval, percentile_interval(shares)

    def _scores_and_level(self, wanted: str, method: type[Any]) -> tuple[Numbers, float]:
        """Return scores of shape [questions, sentences], and the quantile of them that is the threshold.

        A greater score is nearer to a search. Level 0 stands for always searching, and 1 for never.
        """
        (text, unit), (always, never) = RELATIVE.findall(wanted)[0], firing_ends(method)
        number, sign = float(text), -1 if always > never else 1
        width = max(map(len, self.sentences)) or 1
        scores = sign * np.array([[*scores, *[always] * (width - len(scores))] for scores in self.sentences])
        low, high, level = self.searches, self.most_searches, 1 - (number - self.searches) / width
        if unit == "%":
            low, high, level, scores = 0.0, 100.0, number / 100, scores.max(axis=1, keepdims=True)
        if not low <= number <= high:
            least, most = _rounded(low, ROUND_CEILING), _rounded(high, ROUND_FLOOR)
            brief = f"{wanted}: give {least}{unit} to {most}{unit}"
            error = ThresholdError(f"{brief} ({self.source}).")
            error.brief = f"{brief}."
            raise error
        return scores, 0.0 if unit != "%" and number == high > low else level


def _rounded(number: float, direction: str) -> str:
    """Return a number with four digits, rounded in a direction."""
    return f"{Context(prec=4, rounding=direction).create_decimal(number):f}"


def firing_ends(method: type[Any]) -> Interval:
    """Return the values of a method's search parameter with which it always and never fires."""
    parameter = choose_parameter(method, None)
    low, high = parameter_range(parameter_field(method, parameter.name))
    return (high, low) if parameter.rises else (low, high)


async def measure(
    engine: Engine, examples: Sequence[Example], in_flight: int, on_first: Callable[[int, float], None]
) -> tuple[float, tuple[tuple[float, ...], ...]]:
    """Answer each question once with a threshold that never fires. Failed questions are left out.

    Args:
        on_first: Called with the calls and the seconds of the first question before the others are asked.

    Returns:
        The mean number of searches per question, and the decisive score of each sentence of each question.

    Raises:
        InputError: The method has no scores to compare with a threshold.
        AskanceError: Every question failed, or the method records no scores with its decisions.
    """
    method, (_, never) = type(engine.method), firing_ends(type(engine.method))
    if not getattr(engine.method, "signal", "token probability"):
        how = f"{method_spec(engine.method)} compares no scores with a threshold"
        raise InputError(f"{how}: leave out the parameter trigger, or name a trigger that does.")
    engine = replace(engine, abstaining=None, is_strict=False)
    trials = Trials(engine, choose_parameter(method, None), (never, never), examples[:1], None)
    await trials.run(never, in_flight, lambda *_: None)
    usage = trials.completed[0].records[0].usage
    on_first(usage.calls, usage.seconds)
    trials.examples = examples[1:]
    await trials.run(never, in_flight, lambda *_: None)
    answered = [
        (record.usage.searches, scores)
        for trial in trials.completed
        for record, scores in zip(trial.records, trial.decisive, strict=True)
        if not record.is_failure
    ]
    if not any(scores for _, scores in answered):
        first = "".join([f"Question {each.id}: {each.error}" for _, each in trials.failures()][:1])
        why = first or "Name other questions with --dataset."
        raise AskanceError(f"no answer of {name_of(method)} has scores for a threshold. {why}")
    searches, sentences = zip(*answered, strict=True)
    return sum(searches) / len(answered), sentences


def inert_remark(value: float, evidence: str, *, fires: bool) -> str:
    """Return a remark about a threshold that always or never fires."""
    how = "always" if fires else "never"
    return f"the threshold {value:g} {how} fires: {evidence}; `askance calibrate` finds one for this model."


def inert_before(method: Any, kept: KeptScores | None) -> str:
    """Return a remark if the threshold of a method always or never fires, else an empty string.

    The scores may have a range by definition, such as that of a probability; the kept scores say which part
    of it the model uses. The range of a gate is unknown without them.
    """
    parameter, (always, never) = choose_parameter(type(method), None), firing_ends(type(method))
    value, signal = parameter.value_of(method), getattr(method, "signal", "token probability")
    scores = [score for sentences in kept.sentences for score in sentences] if kept else []
    low, high = sorted((always, getattr(method, "greatest_score", never)))
    where = "by definition"
    if kept and len(scores) >= LEAST_DECISIONS:
        low, high, where = min(scores), max(scores), f"for {kept.source}"
    elif getattr(method, "gate", None):
        return ""
    if value is None or not signal or low < value < high:
        return ""
    fires = value >= high if parameter.rises else value <= low
    return inert_remark(value, f"{signal} is {low:.3g} to {high:.3g} {where}", fires=fires)
