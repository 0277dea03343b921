"""Choose the next value of a parameter to try, so that few trials bracket the wanted number of searches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.training.calibration.curve import monotone

_STEPS_OUTWARD = 3
_MARGIN = 1.25
"""The number of decisions to change per missing search, above 1 so that the next value overshoots."""
_MIN_WIDTH = 1e-3
"""A bracket narrower than this fraction of the value is a jump, which no further trial will resolve."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A value of the parameter, and the number of searches that it led to.

    Attributes:
        searches: The mean number of searches per question.
        decisions: For each decision, the numbers that were compared with the value.
    """

    value: float
    searches: float
    decisions: tuple[tuple[float, ...], ...] = ()
    num_questions: int = 1


@dataclass(frozen=True, slots=True)
class CalibrationTarget:
    """The wanted number of searches, and the range of the parameter.

    Attributes:
        wanted: The wanted mean number of searches per question.
        is_rising: Whether a greater value means more searches.
        low, high: The bounds of the parameter's range, which may be infinite.
        tolerance: The allowed difference from the wanted number, in searches per question.
    """

    wanted: float
    is_rising: bool
    low: float
    high: float
    tolerance: float

    def is_met_by(self, measurements: Sequence[Measurement]) -> bool:
        """Return whether a measurement is within the tolerance of the wanted number."""
        return any(abs(measured.searches - self.wanted) <= self.tolerance for measured in measurements)


def by_expected_searches(measurements: Sequence[Measurement], *, is_rising: bool) -> list[Measurement]:
    """Return the measurements sorted by the expected number of searches, fewest first."""
    return sorted(measurements, key=lambda measured: measured.value, reverse=not is_rising)


def measured_direction(measurements: Sequence[Measurement], *, expected: bool) -> bool:
    """Return whether a greater value means more searches, judging by the least and the greatest value tried.

    If these two led to equally many searches, `expected` is returned.
    """
    ordered = sorted(measurements, key=lambda measured: measured.value)
    if not ordered or ordered[0].searches == ordered[-1].searches:
        return expected
    return ordered[-1].searches > ordered[0].searches


def next_value(target: CalibrationTarget, measurements: Sequence[Measurement]) -> float | None:
    """Return the value to try next, or None if no further trial helps.

    Args:
        measurements: The measurements so far, in the order of the trials.
    """
    if target.is_met_by(measurements):
        return None
    ordered = by_expected_searches(measurements, is_rising=target.is_rising)
    means = monotone([measured.searches for measured in ordered])
    num_fewer = sum(mean < target.wanted for mean in means)
    if 0 < num_fewer < len(ordered):
        return _value_inside(target, ordered, means, num_fewer)
    return _value_outside(target, measurements, needs_more=num_fewer > 0)


def widening_value(
    target: CalibrationTarget, measurements: Sequence[Measurement], spread: float
) -> float | None:
    """Return the next value that widens the range of the means, or None if no further trial helps.

    The means should range from `spread` searches below the wanted number to `spread` searches above it.
    """
    means = [measured.searches for measured in measurements]
    for wanted in (target.wanted + spread, max(0.0, target.wanted - spread)):
        if not min(means) <= wanted <= max(means):
            value = next_value(replace(target, wanted=wanted), measurements)
            if value is not None:
                return value
    return None


def _value_inside(
    target: CalibrationTarget, ordered: Sequence[Measurement], means: Sequence[float], index: int
) -> float | None:
    """Return a value between the two neighbours whose means enclose the wanted number of searches.

    The value is a quantile of those recorded numbers that lie between the two neighbours. The wanted number's
    relative position between the two means determines which quantile. The result is None if the neighbours
    are too close together.
    """
    fewer, more = ordered[index - 1], ordered[index]
    low, high = sorted((fewer.value, more.value))
    if high - low <= _MIN_WIDTH * max(abs(low), abs(high)):
        return None
    share = (target.wanted - means[index - 1]) / (means[index] - means[index - 1])
    share = min(0.9, max(0.1, share if fewer.value < more.value else 1 - share))
    recorded = (number for measured in ordered for numbers in measured.decisions for number in numbers)
    between = sorted(number for number in recorded if low < number < high)
    value = between[int(share * len(between))] if between else low + share * (high - low)
    return _rounded(value, low, high)


def _value_outside(
    target: CalibrationTarget, measurements: Sequence[Measurement], *, needs_more: bool
) -> float | None:
    """Return a value beyond all values tried, or None if there is none left to try.

    The value is one that would have changed enough decisions, or else the midpoint between the last value and
    the end of the parameter's range. After some steps it is the end of the range. If the range is unbounded,
    the value doubles instead, and the last trial uses the outermost recorded number, since no decision has a
    number beyond it.
    """
    is_upward = needs_more == target.is_rising
    sign, bound = (1, target.high) if is_upward else (-1, target.low)
    edge = max(measurements, key=lambda measured: sign * measured.value)
    num_steps = sum(sign * measured.value > sign * measurements[0].value for measured in measurements)
    if edge.value == bound or (math.isinf(bound) and num_steps >= _STEPS_OUTWARD):
        return None
    if num_steps < _STEPS_OUTWARD - 1:
        guess = _value_changing_enough(target, edge, sign)
        if guess is not None and guess != bound:
            return _rounded(guess, *sorted((edge.value, bound)))
        return (
            edge.value + sign * max(abs(edge.value), 1.0) if math.isinf(bound) else (edge.value + bound) / 2
        )
    if not math.isinf(bound):
        return bound
    recorded = [
        sign * number for measured in measurements for numbers in measured.decisions for number in numbers
    ]
    return sign * max([sign * edge.value + max(abs(edge.value), 1.0), *recorded])


def _value_changing_enough(target: CalibrationTarget, edge: Measurement, sign: int) -> float | None:
    """Return the recorded number beyond which enough decisions change to supply the missing searches.

    If the method searches when a number is below the value, a decision changes as soon as the value passes
    the least of its numbers. If it searches when a number is above the value, the greatest number counts.
    """
    num_needed = math.ceil(_MARGIN * abs(target.wanted - edge.searches) * edge.num_questions)
    turning = min if target.is_rising else max
    points = sorted(sign * turning(numbers) for numbers in edge.decisions if numbers)
    ahead = [point for point in points if point > sign * edge.value]
    return sign * ahead[num_needed - 1] if num_needed <= len(ahead) else None


def _rounded(value: float, low: float, high: float) -> float:
    """Return the value rounded to four digits, or the exact value if rounding would leave the bounds."""
    rounded = float(f"{value:.4g}")
    return rounded if low < rounded < high else value
