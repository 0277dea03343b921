"""Find the threshold with which a method answers best, by a metric over questions with gold answers.

A score can rise and fall again as the threshold grows: too few searches miss what the model does not know,
and too many replace what it does know. So no curve is assumed. Each value that is tried divides the numbers
that decisions compared with the threshold, where the score promises most: the mean score of two values that
were tried, and `_GAIN` for each question that is searched for a different number of times at the two.

Methods can be compared at the same cost if the number of searches per question is limited: then only values
within the limit compete. If tokens have a price, the score less the cost of the tokens is compared: at the
best value, to spend more would gain less than it costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite
from statistics import fmean

import numpy as np

from askance.ask import Engine
from askance.core.answers import Answer
from askance.core.errors import InputError
from askance.core.parameters import SearchParameter, parameter_field, parameter_range
from askance.core.trace import Trace
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.statistics.compare import mean_interval, paired_difference
from askance.training.calibration.calibrate import MAX_TRIALS, choose_parameter
from askance.training.calibration.curve import Interval, percentile_interval, resampled_means
from askance.training.calibration.trials import CalibratedMethod, OnProgress, Trial, Trials

_ROUNDING = 1e-12
_GAIN = 0.25
"""The gain that is hoped for from a question that a value between two others searches for differently."""
_MARGIN = 0.01
"""How far, relatively, the ends lie beyond the numbers that decided in the first trial."""


@dataclass(frozen=True, slots=True)
class ScoredValue:
    """The mean score and the mean numbers of searches and tokens for one value, over the same questions."""

    value: float
    score: float
    score_interval: Interval
    searches: float
    tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BestValue(CalibratedMethod):
    """The value of a parameter with the best mean score. If several are equal, it has the fewest searches.

    Attributes:
        price: The score that 1,000 tokens must gain, which is subtracted from the scores before they compete.
        max_searches: The most searches per question that the value may have; None means any number.
        interval: The 95 % interval of the value among the values tried, from resampling the questions.
        table: Every value tried, in ascending order.
    """

    metric: str
    max_searches: float | None
    price: float
    value: float
    interval: Interval
    table: tuple[ScoredValue, ...]


async def calibrate_by_score(
    engine: Engine,
    examples: Sequence[Example],
    scoring: Scoring,
    *,
    parameter: str | None = None,
    max_searches: float | None = None,
    price: float = 0.0,
    max_trials: int = MAX_TRIALS,
    in_flight: int = 1,
    on_progress: OnProgress = lambda trial, value, done, searches: None,
) -> BestValue:
    """Find the value of a parameter of the engine's method with which it scores best.

    The method's own value is tried first, if it has one. Then come values at which none and all of these
    decisions would have been to search, and values between them. All randomness comes from the engine's seed.

    Args:
        scoring: The one metric to choose by.
        max_searches: The most searches per question, on average, that the value may have. If every value
            that is tried has more, the one with the fewest is the result.
        price: The score that 1,000 tokens must gain (prompt tokens and generated tokens).
        parameter, max_trials, in_flight, on_progress: As for `calibrate`.

    Raises:
        InputError: There are no questions, the metric applies to none of them, or the method or parameter
            can't be calibrated.
        AskanceError: Every question failed.
    """
    if not examples or max_trials < 1:
        raise InputError("nothing to calibrate with: give at least one question and one trial.")
    chosen, (metric,) = choose_parameter(type(engine.method), parameter), scoring.names

    def score(index: int, answer: Answer | None, trace: Trace) -> float | None:
        scores: dict[str, float | None] = scoring.judge(examples[index], answer, trace.events)["scores"]
        return scores[metric]

    questions = [example.question for example in examples]
    trials = Trials(engine, chosen.name, questions, in_flight, on_progress, score)
    value: float | None = _first_value(engine.method, chosen)
    while value is not None and len(trials.completed) < max_trials:
        await trials.run(len(trials.completed) + 1, value)
        counted = _counted_questions(trials, metric)
        value = _next_value(engine.method, chosen, trials.completed, counted, max_searches)
    return _best_value(trials, metric, max_searches, price)


def _first_value(method: object, parameter: SearchParameter) -> float:
    """Return the method's own value, or if it has no finite one the end of the range that is nearest to 0."""
    start = parameter.value_of(method)
    low, high = parameter_range(parameter_field(type(method), parameter.name))
    return start if start is not None and isfinite(start) else min(max(0.0, low), high)


def _next_value(
    method: object,
    parameter: SearchParameter,
    completed: Sequence[Trial],
    counted: Sequence[int],
    max_searches: float | None,
) -> float | None:
    """Return the value to try next, or None if no value could change a decision.

    The first trial is followed by values below and above all numbers that decided in it.
    """
    numbers, ordered = _deciding(parameter, completed), sorted(completed, key=lambda trial: trial.value)
    if not numbers:
        return None
    low, high = parameter_range(parameter_field(type(method), parameter.name))
    first = _deciding(parameter, completed[:1]) or numbers
    if ordered[-1].value < first[-1]:
        return min(high, _rounded(first[-1] + _MARGIN * abs(first[-1])))
    if ordered[0].value > first[0]:
        return max(low, _rounded(first[0] - _MARGIN * abs(first[0])))
    gaps = [
        (_promise(lower, upper, counted), inside)
        for lower, upper in pairwise(ordered)
        # With fewer than two numbers in between, the two values decide as any value between them does.
        if len(inside := [number for number in numbers if lower.value < number < upper.value]) > 1
        and any(_is_allowed(end, counted, max_searches) for end in (lower, upper))
    ]
    _, inside = max(gaps, key=lambda gap: gap[0], default=(0.0, []))
    return _rounded(fmean(inside[(len(inside) - 1) // 2 :][:2])) if inside else None


def _promise(lower: Trial, upper: Trial, counted: Sequence[int]) -> float:
    """Return the mean score that is hoped for from a value between those of two trials."""
    pairs = zip(_searches(lower, counted), _searches(upper, counted), strict=True)
    changed = fmean(one != other for one, other in pairs)
    return fmean((*_scores(lower, counted), *_scores(upper, counted))) + _GAIN * changed


def _deciding(parameter: SearchParameter, completed: Sequence[Trial]) -> list[float]:
    """Return the numbers that decided whether to search: the greatest of each decision, or the least."""
    pick = min if parameter.rises else max
    return sorted({_rounded(pick(each)) for trial in completed for each in trial.decisions if each})


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")


def _is_allowed(trial: Trial, counted: Sequence[int], max_searches: float | None) -> bool:
    """Return whether a trial has no more searches per question than are allowed."""
    return fmean(_searches(trial, counted)) <= (inf if max_searches is None else max_searches) + _ROUNDING


def _allowed(ordered: Sequence[Trial], counted: Sequence[int], max_searches: float | None) -> Sequence[Trial]:
    """Return the trials within the limit, or the one with the fewest searches if there are none."""
    allowed = [trial for trial in ordered if _is_allowed(trial, counted, max_searches)]
    return allowed or [min(ordered, key=lambda trial: fmean(_searches(trial, counted)))]


def _best(trials: Sequence[Trial], counted: Sequence[int], price: float) -> Trial:
    """Return the trial with the greatest mean score; of equal ones, the one with the fewest searches."""

    def rank(trial: Trial) -> tuple[float, float]:
        return round(fmean(_net_scores(trial, counted, price)), 12), -fmean(_searches(trial, counted))

    return max(trials, key=rank)


def _scores(trial: Trial, counted: Sequence[int]) -> list[float]:
    return [score for index in counted if (score := trial.scores[index]) is not None]


def _net_scores(trial: Trial, counted: Sequence[int], price: float) -> list[float]:
    """Return the score of each question, less the price of its tokens."""
    scored = [(score, trial.usages[index]) for index in counted if (score := trial.scores[index]) is not None]
    tokens = [0 if usage is None else usage.prompt_tokens + usage.generated_tokens for _, usage in scored]
    return [score - price * number / 1000 for (score, _), number in zip(scored, tokens, strict=True)]


def _searches(trial: Trial, counted: Sequence[int]) -> list[int]:
    return [usage.searches for index in counted if (usage := trial.usages[index]) is not None]


def _counted_questions(trials: Trials, metric: str) -> list[int]:
    """Return the indices of the questions that never failed and have a score.

    Raises:
        InputError: The metric applies to none of the questions.
        AskanceError: Every question failed.
    """
    counted = [index for index in trials.answered() if trials.completed[0].scores[index] is not None]
    if not counted:
        raise InputError(f"metric {metric!r} applies to none of the questions: choose another one.")
    return counted


def _best_value(trials: Trials, metric: str, max_searches: float | None, price: float) -> BestValue:
    counted = _counted_questions(trials, metric)
    ordered = sorted(trials.completed, key=lambda trial: trial.value)
    allowed = _allowed(ordered, counted, max_searches)
    best = _best(allowed, counted, price)
    scores = np.array([_net_scores(trial, counted, price) for trial in allowed], dtype=np.float64)
    chosen = resampled_means(scores, trials.engine.seed).argmax(axis=0)
    return BestValue(
        **trials.description(best.value),
        metric=metric,
        max_searches=max_searches,
        price=price,
        value=best.value,
        interval=percentile_interval([allowed[index].value for index in chosen]),
        table=tuple(_row(trial, counted) for trial in ordered),
        num_counted=len(counted),
        remark=_remark(trials.parameter, best, (allowed[0], allowed[-1]), counted, max_searches, price),
    )


def _row(trial: Trial, counted: Sequence[int]) -> ScoredValue:
    usages = [usage for index in counted if (usage := trial.usages[index]) is not None]
    interval = mean_interval(_scores(trial, counted))
    searches = float(np.mean([usage.searches for usage in usages]))
    tokens = float(np.mean([usage.prompt_tokens + usage.generated_tokens for usage in usages]))
    return ScoredValue(trial.value, interval.mean, (interval.low, interval.high), searches, tokens)


def _remark(
    parameter: str,
    best: Trial,
    ends: Sequence[Trial],
    counted: Sequence[int],
    max_searches: float | None,
    price: float,
) -> str:
    """Return a remark if the best value is not better, beyond chance, than the least and greatest allowed."""
    if not _is_allowed(best, counted, max_searches):
        return (
            f"every value tried makes more than {max_searches:g} searches per question; this one makes the "
            "fewest. Some methods search before they write anything (search_first)."
        )
    ids = [f"{index}" for index in counted]
    own = dict(zip(ids, _net_scores(best, counted, price), strict=True))
    for end in ends:
        difference = paired_difference(own, dict(zip(ids, _net_scores(end, counted, price), strict=True)))
        if end is not best and difference.low <= _ROUNDING:
            return (
                f"{parameter}={end.value:g} may be as good: the difference is {difference.mean:+.3f}, 95 % "
                f"interval {difference.low:+.3f} to {difference.high:+.3f}. More questions tell them apart."
            )
    return ""
