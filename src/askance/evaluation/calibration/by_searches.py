"""Find the value that gives a wanted number of searches per question, by interpolation between trials.

The numbers that are compared with a threshold (probabilities, entropies times attention) have a different
range for every model and every variant of a method, so a threshold from a paper does not transfer to another
model. The number of searches per question means the same everywhere.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

import numpy as np

from askance.core.errors import InputError
from askance.evaluation.calibration.trials import Choice, Trial, Trials, resampled_means
from askance.evaluation.statistics.compare import percentile_interval

TOLERANCE = 0.05
"""The accepted difference from the wanted number, in searches per question."""
_MARGIN = 1.25
"""The number of decisions to change per missing search, above 1 so that the next value overshoots."""
_BEYOND = 0.01
"""How far, relatively, a value lies beyond the last number that decided."""
_MIN_WIDTH = 1e-3
"""A bracket narrower than this fraction of the value is a jump, which no further trial will resolve."""


@dataclass(frozen=True, slots=True)
class SearchesGoal:
    """A wanted mean number of searches per question.

    Values further and further out are tried until two of them enclose the wanted number, and then values
    between these, chosen among the numbers that decided. The last trials widen the range on both sides, to
    determine the interval. The result is interpolated after the means have been made monotone.

    Raises:
        InputError: The wanted number is negative or not finite.
    """

    scoring: ClassVar[None] = None
    wanted: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.wanted) or self.wanted < 0:
            raise InputError(
                f"searches per question: {self.wanted:g} is out of range; give a number of 0 or more."
            )

    def __str__(self) -> str:
        return f"{self.wanted:g} searches per question"

    def next_value(self, trials: Trials) -> float | None:
        """Return the value to try next, or None if no further trial helps."""
        ordered = _from_fewest(trials)
        value = None if self._is_met_by(ordered) else _value_towards(self.wanted, ordered, trials)
        if value is not None or not self._is_reached_by(ordered):
            return value
        means = [trial.mean_searches for trial in ordered]
        closest = min(ordered, key=lambda trial: abs(trial.mean_searches - self.wanted))
        spread = 2 * float(np.std(closest.searches)) / len(closest.searches) ** 0.5
        for wanted in (self.wanted + spread, max(0.0, self.wanted - spread)):
            if not min(means) <= wanted <= max(means):
                value = value or _value_towards(wanted, ordered, trials)
        return value

    def choose(self, trials: Trials) -> Choice:
        """Return the value that leads to the wanted number, or none with the reason."""
        ordered = _from_fewest(trials)
        if not self._is_reached_by(ordered):
            return Choice(None, None, self._out_of_reach(ordered, trials))
        values = [trial.value for trial in ordered]
        samples = resampled_means(np.array([trial.searches for trial in ordered]), trials.engine.seed)
        low, high = percentile_interval(
            [value_at(self.wanted, values, means) for means in samples.T.tolist()]
        )
        value = value_at(self.wanted, values, [trial.mean_searches for trial in ordered])
        remarks = [self._jump(ordered, trials)]
        if {low, high} & ({min(values), max(values)} - set(trials.bounds)):
            remarks.append(
                "an end of the interval is the last value tried: it may be wider. More questions narrow it."
            )
        return Choice(_shown(value), (_shown(low), _shown(high)), " ".join(filter(None, remarks)))

    def _is_met_by(self, ordered: Sequence[Trial]) -> bool:
        return any(abs(trial.mean_searches - self.wanted) <= TOLERANCE for trial in ordered)

    def _is_reached_by(self, ordered: Sequence[Trial]) -> bool:
        means = monotone([trial.mean_searches for trial in ordered])
        return self._is_met_by(ordered) or means[0] < self.wanted < means[-1]

    def _jump(self, ordered: Sequence[Trial], trials: Trials) -> str:
        """Return a remark if no value tried came within the tolerance, or else an empty string."""
        if self._is_met_by(ordered):
            return ""
        index = bisect_left(monotone([trial.mean_searches for trial in ordered]), self.wanted)
        fewer, more = (_described(trial, trials) for trial in ordered[index - 1 : index + 1])
        return (
            f"no value tried gave {self.wanted:g}: it lies between {fewer} and {more}. More questions make "
            "such jumps smaller."
        )

    def _out_of_reach(self, ordered: Sequence[Trial], trials: Trials) -> str:
        least, most = (pick(ordered, key=attrgetter("mean_searches")) for pick in (min, max))
        if self.next_value(trials) is not None:
            why = "more trials may reach further"
        elif least.mean_searches == most.mean_searches:
            why = f"{trials.parameter.name} changes nothing here"
        elif self.wanted < least.mean_searches:
            why = "a search that a method always starts with counts"
        else:
            why = "it does not search more often"
        return (
            f"{self} are out of reach: the values tried give {_described(least, trials)} to "
            f"{_described(most, trials)}; {why}."
        )


def _described(trial: Trial, trials: Trials) -> str:
    return f"{trial.mean_searches:.2f} ({trials.parameter.name}={trial.value:g})"


def _shown(value: float) -> float:
    return float(f"{value:.4g}")


def _is_rising(ascending: Sequence[Trial], trials: Trials) -> bool:
    """Return whether a greater value means more searches, judging by the least and the greatest value."""
    first, last = ascending[0].mean_searches, ascending[-1].mean_searches
    return trials.parameter.rises if first == last else last > first


def _from_fewest(trials: Trials) -> list[Trial]:
    """Return the trials sorted by the expected number of searches, fewest first."""
    ascending = trials.comparable()
    return ascending if _is_rising(ascending, trials) else ascending[::-1]


def _value_towards(wanted: float, ordered: Sequence[Trial], trials: Trials) -> float | None:
    """Return a value that may lead to `wanted` searches per question, or None if there is none."""
    means = monotone([trial.mean_searches for trial in ordered])
    index = bisect_left(means, wanted)
    if not 0 < index < len(ordered):
        return _value_outside(wanted, ordered, trials, needs_more=index > 0)
    fewer, more = ordered[index - 1].value, ordered[index].value
    low, high = sorted((fewer, more))
    if high - low <= _MIN_WIDTH * max(abs(low), abs(high)):
        return None
    share = (wanted - means[index - 1]) / (means[index] - means[index - 1])
    share = min(0.9, max(0.1, share if fewer < more else 1 - share))
    between = sorted(number for trial in ordered for number in trial.deciding if low < number < high)
    value = between[int(share * len(between))] if between else low + share * (high - low)
    return _shown(value) if low < _shown(value) < high else value


def _value_outside(
    wanted: float, ordered: Sequence[Trial], trials: Trials, *, needs_more: bool
) -> float | None:
    """Return a value beyond all values tried, or None if there is none left to try.

    The value is one that would have changed enough decisions of the outermost trial, or else all of them. If
    no decision would change, it is the end of the parameter's range.
    """
    edge = ordered[-1 if needs_more else 0]
    is_upward = needs_more == _is_rising(sorted(ordered, key=lambda trial: trial.value), trials)
    sign, bound = (1, trials.bounds[1]) if is_upward else (-1, trials.bounds[0])
    num_needed = math.ceil(_MARGIN * abs(wanted - edge.mean_searches) * len(edge.searches))
    ahead = sorted(sign * number for number in edge.deciding if sign * number > sign * edge.value)
    if num_needed <= len(ahead):
        return _shown(sign * ahead[num_needed - 1])
    if ahead:
        value = ahead[-1] + _BEYOND * abs(ahead[-1])
        return _shown(sign * min(value, sign * bound))
    return None if edge.value == bound or math.isinf(bound) else bound


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
