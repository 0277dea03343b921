"""Goals of a calibration: the best score, or a wanted number of searches per question.

A score can rise and fall again as the threshold grows: too few searches miss what the model does not know,
and too many replace what it does know. So `ScoreGoal` assumes no curve. Each value that is tried divides the
numbers that decisions compared with the threshold, where the score promises most: the mean score of two
values that were tried, and `_GAIN` for each question that is searched for a different number of times at the
two. Methods can be compared at the same cost if the number of searches per question is limited: then only
values within the limit compete. If tokens have a price, the score less the cost of the tokens is compared: at
the best value, to spend more would gain less than it costs.

The numbers that are compared with a threshold (probabilities, entropies times attention) have a different
range for every model and every variant of a method, so a threshold from a paper does not transfer to another
model. The number of searches per question means the same everywhere, so `SearchesGoal` finds the value that
gives it, by interpolation between trials.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from statistics import fmean
from typing import ClassVar

import numpy as np

from askance.core.errors import InputError
from askance.evaluation.choose.trials import Choice, Trial, Trials
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.statistics.compare import Numbers, paired_difference, percentile_interval

TOLERANCE = 0.05
"""The accepted difference from the wanted number, in searches per question."""
_ROUNDING = 1e-12
_GAIN = 0.25
"""The gain that is hoped for from a question that a value between two others searches for differently."""
_BEYOND = 0.01
"""How far, relatively, a value lies beyond the last number that decided."""
_MIN_WIDTH = 1e-3
"""A bracket narrower than this fraction of the value is a jump, which no further trial will resolve."""
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class ScoreGoal:
    """The best mean score. Of equal values, the one with the fewest searches is the best.

    The method's own value is tried first. Then come values at which none and all of its decisions would have
    been to search, and values between them.

    Attributes:
        scoring: The one metric to choose by.
        max_searches: The most searches per question, on average, that the value may have; None means any
            number. If every value that is tried has more, the one with the fewest is the result.
        price: The score that 1,000 tokens must gain, which is subtracted from the scores before they compete.
    """

    scoring: Scoring
    max_searches: float | None = None
    price: float = 0.0

    def __str__(self) -> str:
        price = f" less {self.price:g} per 1,000 tokens" if self.price else ""
        limit = self.max_searches
        most = "" if limit is None else f" with at most {limit:g} searches per question"
        return f"the best {self.scoring.names[0]}{price}{most}"

    def next_value(self, trials: Trials) -> float | None:
        """Return the value to try next, or None if no value could change a decision."""
        ordered = trials.comparable()
        numbers = sorted({_rounded(each, 6) for trial in trials.completed for each in trial.deciding})
        ends = _untried_ends(trials)
        if ends or not numbers:
            return max(ends, default=None)
        gaps = [
            (_promise(lower, upper), inside)
            for lower, upper in pairwise(ordered)
            # With fewer than two numbers in between, the two values decide as any value between them does.
            if len(inside := [number for number in numbers if lower.value < number < upper.value]) > 1
            and (self._allows(lower) or self._allows(upper))
        ]
        _, inside = max(gaps, key=lambda gap: gap[0], default=(0.0, []))
        return _rounded(fmean(inside[(len(inside) - 1) // 2 :][:2]), 6) if inside else None

    def choose(self, trials: Trials) -> Choice:
        """Return the value tried with the best score; the interval has those that resamples choose."""
        ordered = trials.comparable()
        allowed = [*filter(self._allows, ordered)] or [min(ordered, key=attrgetter("mean_searches"))]
        nets = np.array([trial.scores - self.price * trial.tokens / 1000 for trial in allowed])
        means = nets.mean(axis=1).round(12).tolist()
        best = max(range(len(allowed)), key=lambda index: (means[index], -allowed[index].mean_searches))
        chosen = resampled_means(nets, trials.engine.seed).argmax(axis=0)
        interval = percentile_interval([allowed[index].value for index in chosen])
        return Choice(allowed[best].value, interval, self._remark(trials.parameter.name, allowed, nets, best))

    def _allows(self, trial: Trial) -> bool:
        """Return whether a trial has no more searches per question than are allowed."""
        return self.max_searches is None or trial.mean_searches <= self.max_searches + _ROUNDING

    def _remark(self, parameter: str, allowed: Sequence[Trial], nets: Numbers, best: int) -> str:
        """Return a remark if the best value is not better, beyond chance, than the least and greatest."""
        if not self._allows(allowed[best]):
            return (
                f"every value tried makes more than {self.max_searches:g} searches per question; this one "
                "makes the fewest. Some methods search before they write anything (search_first)."
            )
        by_question = [{f"{number}": score for number, score in enumerate(net)} for net in nets.tolist()]
        for end in {0, len(allowed) - 1} - {best}:
            difference = paired_difference(by_question[best], by_question[end])
            if difference.low <= _ROUNDING:
                return (
                    f"{parameter}={allowed[end].value:g} may be as good: the difference is "
                    f"{difference.mean:+.3f}, 95 % interval {difference.low:+.3f} to {difference.high:+.3f}. "
                    "More questions tell them apart."
                )
        return ""


def _promise(lower: Trial, upper: Trial) -> float:
    """Return the mean score that is hoped for from a value between those of two trials."""
    changed = float((lower.searches != upper.searches).mean())
    return float(np.mean([lower.scores, upper.scores])) + _GAIN * changed


@dataclass(frozen=True, slots=True)
class SearchesGoal:
    """A wanted mean number of searches per question.

    As for `ScoreGoal`, values at which none and all of the decisions would have been to search come first.
    Then come values between the two that enclose the wanted number, chosen among the numbers that decided.
    The result is interpolated after the means have been made monotone.

    Raises:
        InputError: The wanted number is negative or not finite.
    """

    scoring: ClassVar[None] = None
    wanted: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.wanted) or self.wanted < 0:
            raise InputError(f"searches per question: {self.wanted:g} is out of range; give 0 or more.")

    def __str__(self) -> str:
        return f"{self.wanted:g} searches per question"

    def next_value(self, trials: Trials) -> float | None:
        """Return the value to try next, or None if no further trial helps."""
        ordered = _from_fewest(trials)
        means = monotone([trial.mean_searches for trial in ordered])
        ends = _untried_ends(trials)
        if ends:
            return max(ends) if _is_rising(trials) == (means[-1] < self.wanted) else min(ends)
        index = bisect_left(means, self.wanted)
        if self._is_met_by(ordered) or not 0 < index < len(means):
            return None
        fewer, more = ordered[index - 1].value, ordered[index].value
        low, high = sorted((fewer, more))
        if high - low <= _MIN_WIDTH * max(abs(low), abs(high)):
            return None
        share = (self.wanted - means[index - 1]) / (means[index] - means[index - 1])
        share = min(0.9, max(0.1, share if fewer < more else 1 - share))
        between = sorted(number for trial in ordered for number in trial.deciding if low < number < high)
        value = between[int(share * len(between))] if between else low + share * (high - low)
        return _rounded(value) if low < _rounded(value) < high else value

    def choose(self, trials: Trials) -> Choice:
        """Return the value that leads to the wanted number, or none with the reason."""
        ordered = _from_fewest(trials)
        values, means = [trial.value for trial in ordered], [trial.mean_searches for trial in ordered]
        pairs = zip(means, values, strict=True)
        shown = [f"{mean:.2f} ({trials.parameter.name}={value:g})" for mean, value in pairs]
        is_met, index = self._is_met_by(ordered), bisect_left(monotone(means), self.wanted)
        if not is_met and not 0 < index < len(means):
            least, most = means.index(min(means)), means.index(max(means))
            return Choice(
                None,
                None,
                f"{self} are out of reach: the values tried give {shown[least]} to {shown[most]}. A search "
                "that a method always starts with counts, and more trials may reach further.",
            )
        samples = resampled_means(np.array([trial.searches for trial in ordered]), trials.engine.seed)
        ends = percentile_interval([value_at(self.wanted, values, sample) for sample in samples.T.tolist()])
        remarks = []
        if not is_met:
            remarks.append(
                f"no value tried gave {self.wanted:g}: it lies between {shown[index - 1]} and {shown[index]}."
                " More questions make such jumps smaller."
            )
        if {*ends} & ({min(values), max(values)} - set(trials.bounds)):
            remarks.append(
                "an end of the interval is the last value tried: it may be wider. More questions narrow it."
            )
        low, high = map(_rounded, ends)
        return Choice(_rounded(value_at(self.wanted, values, means)), (low, high), " ".join(remarks))

    def _is_met_by(self, ordered: Sequence[Trial]) -> bool:
        return any(abs(trial.mean_searches - self.wanted) <= TOLERANCE for trial in ordered)


def _rounded(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")


def _is_rising(trials: Trials) -> bool:
    """Return whether a greater value means more searches, judging by the least and the greatest value."""
    means = [trial.mean_searches for trial in trials.comparable()]
    return trials.parameter.rises if means[0] == means[-1] else means[-1] > means[0]


def _from_fewest(trials: Trials) -> list[Trial]:
    """Return the trials sorted by the expected number of searches, fewest first."""
    return trials.comparable()[:: 1 if _is_rising(trials) else -1]


def _untried_ends(trials: Trials) -> list[float]:
    """Return up to two values beyond all values tried that would change decisions.

    At such a value, all decisions of the greatest value tried, or of the least one, would be alike. If no
    decision shows the number that it compared, the ends of the parameter's range are tried.
    """
    ordered, (low, high) = trials.comparable(), trials.bounds
    shows_numbers = any(trial.deciding for trial in ordered)
    ends = []
    for edge, sign, bound in ((ordered[-1], 1, high), (ordered[0], -1, low)):
        ahead = max((sign * number for number in edge.deciding), default=-math.inf)
        if ahead > sign * edge.value != sign * bound:
            ends.append(_rounded(sign * min(ahead + _BEYOND * abs(ahead), sign * bound), 6))
        elif not shows_numbers and edge.value != bound and math.isfinite(bound):
            ends.append(bound)
    return ends


def monotone(means: Sequence[float]) -> list[float]:
    """Return the closest non-decreasing sequence (isotonic regression by pooling adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for mean in means:
        block = (float(mean), 1)
        while blocks and blocks[-1][0] > block[0]:
            total, count = blocks.pop()
            size = count + block[1]
            block = ((total * count + block[0] * block[1]) / size, size)
        blocks.append(block)
    return [mean for mean, count in blocks for _ in range(count)]


def value_at(wanted: float, values: Sequence[float], means: Sequence[float]) -> float:
    """Return the value at which the curve reaches `wanted`.

    If several values give exactly `wanted`, the result is their midpoint. If the curve does not reach
    `wanted`, the result is the nearest end of the curve.

    Args:
        values: The parameter's values, from fewest to most expected searches.
        means: The mean number of searches at each value; they are made monotone first.
    """
    ordered = monotone(means)
    first, beyond = bisect_left(ordered, wanted), bisect_right(ordered, wanted)
    if first < beyond:
        return (values[first] + values[beyond - 1]) / 2
    return float(np.interp(wanted, ordered, values))


def resampled_means(numbers: Numbers, seed: int) -> Numbers:
    """Return bootstrap means over questions, with the same questions drawn for every value of the parameter.

    Args:
        numbers: A number for each value and question: shape [values, questions].

    Returns:
        The means of each resample: shape [values, resamples].
    """
    random = np.random.Generator(np.random.Philox(seed % 2**64))
    drawn = random.integers(numbers.shape[1], size=(_RESAMPLES, numbers.shape[1]))
    means: Numbers = numbers[:, drawn].mean(axis=2)
    return means
