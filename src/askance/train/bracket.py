"""Which value of a knob to try next, so that few trials enclose a wanted number of searches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from askance.train.curve import monotone

_STEPS_OUTWARD = 3
_LEAST_WIDTH = 1e-3
"""Relative to the value: a bracket narrower than this is a jump, which no further trial will resolve."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A value, the mean searches it led to, and the numbers that decisions held against it."""

    value: float
    searches: float
    numbers: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Aim:
    """What is looked for, and where.

    Attributes:
        rises: whether a greater value means more searches.
        low, high: the knob's range; may be infinite.
        tolerance: searches that the number wanted may be missed by.
    """

    wanted: float
    rises: bool
    low: float
    high: float
    tolerance: float

    def is_met(self, tried: Sequence[Tried]) -> bool:
        """Whether some value was as close as asked for."""
        return any(abs(each.searches - self.wanted) <= self.tolerance for each in tried)


def by_searches(tried: Sequence[Tried], *, rises: bool) -> list[Tried]:
    """From the value that should search least to the one that should search most."""
    return sorted(tried, key=lambda each: each.value, reverse=not rises)


def measured_direction(tried: Sequence[Tried], *, believed: bool) -> bool:
    """Whether a greater value means more searches, as the outermost values show it."""
    ends = sorted(tried, key=lambda each: each.value)
    if not ends or ends[0].searches == ends[-1].searches:
        return believed
    return ends[-1].searches > ends[0].searches


def next_value(aim: Aim, tried: Sequence[Tried]) -> float | None:
    """The value to try after those of `tried`, in the order they were tried; None when that's enough."""
    if aim.is_met(tried):
        return None
    ordered = by_searches(tried, rises=aim.rises)
    means = monotone([each.searches for each in ordered])
    num_fewer = sum(mean < aim.wanted for mean in means)
    if 0 < num_fewer < len(ordered):
        return _inside(aim, ordered, means, num_fewer)
    return _outward(aim, tried, needs_more=num_fewer > 0)


def _inside(aim: Aim, ordered: Sequence[Tried], means: Sequence[float], at: int) -> float | None:
    """Between two neighbours: as many of the numbers recorded between them on one side as searches lack."""
    fewer, more = ordered[at - 1], ordered[at]
    low, high = sorted((fewer.value, more.value))
    if high - low <= _LEAST_WIDTH * max(abs(low), abs(high)):
        return None
    share = (aim.wanted - means[at - 1]) / (means[at] - means[at - 1])
    share = min(0.9, max(0.1, share if fewer.value < more.value else 1 - share))
    between = sorted(number for each in ordered for number in each.numbers if low < number < high)
    value = between[int(share * len(between))] if between else low + share * (high - low)
    rounded = float(f"{value:.4g}")
    return rounded if low < rounded < high else value


def _outward(aim: Aim, tried: Sequence[Tried], *, needs_more: bool) -> float | None:
    """Half way to the end of the knob's range, and to the end itself after some steps.

    Without an end the value is doubled, at last to the greatest number recorded: nothing is above that.
    """
    is_upward = needs_more == aim.rises
    sign, bound = (1, aim.high) if is_upward else (-1, aim.low)
    edge = max(sign * each.value for each in tried) * sign
    start = tried[0].value
    steps = sum(sign * each.value > sign * start for each in tried)
    if edge == bound or (math.isinf(bound) and steps >= _STEPS_OUTWARD):
        return None
    is_last = steps == _STEPS_OUTWARD - 1
    if not math.isinf(bound):
        return bound if is_last else (edge + bound) / 2
    doubled = edge + sign * max(abs(edge), 1.0)
    recorded = [sign * number for each in tried for number in each.numbers] if is_last else []
    return sign * max([sign * doubled, *recorded])
