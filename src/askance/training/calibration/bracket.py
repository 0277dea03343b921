"""Which value of a parameter to try next, so that few trials enclose a wanted number of searches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.training.calibration.curve import monotone

_STEPS_OUTWARD = 3
_MARGIN = 1.25
"""Times as many decisions have to turn as searches are amiss, so that the number wanted is passed."""
_LEAST_WIDTH = 1e-3
"""Relative to the value: a bracket narrower than this is a jump, which no further trial will resolve."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A value, and what it led to.

    Attributes:
        searches: a question, on average.
        decisions: of each decision the numbers that were held against the value.
    """

    value: float
    searches: float
    decisions: tuple[tuple[float, ...], ...] = ()
    num_questions: int = 1


@dataclass(frozen=True, slots=True)
class Aim:
    """What is looked for, and where.

    Attributes:
        rises: whether a greater value means more searches.
        low, high: the parameter's range; may be infinite.
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


def widening_value(aim: Aim, tried: Sequence[Tried], spread: float) -> float | None:
    """A value further out, where `tried` does not reach `spread` searches beyond the number wanted."""
    means = [each.searches for each in tried]
    for wanted in (aim.wanted + spread, max(0.0, aim.wanted - spread)):
        if not min(means) <= wanted <= max(means):
            value = next_value(replace(aim, wanted=wanted), tried)
            if value is not None:
                return value
    return None


def _inside(aim: Aim, ordered: Sequence[Tried], means: Sequence[float], at: int) -> float | None:
    """Between two neighbours: as many of the numbers recorded between them on one side as searches lack."""
    fewer, more = ordered[at - 1], ordered[at]
    low, high = sorted((fewer.value, more.value))
    if high - low <= _LEAST_WIDTH * max(abs(low), abs(high)):
        return None
    share = (aim.wanted - means[at - 1]) / (means[at] - means[at - 1])
    share = min(0.9, max(0.1, share if fewer.value < more.value else 1 - share))
    recorded = (number for each in ordered for numbers in each.decisions for number in numbers)
    between = sorted(number for number in recorded if low < number < high)
    value = between[int(share * len(between))] if between else low + share * (high - low)
    return _rounded(value, low, high)


def _outward(aim: Aim, tried: Sequence[Tried], *, needs_more: bool) -> float | None:
    """Where enough decisions would have gone the other way, or half way to the end of the parameter's range.

    After some steps it is the end itself. A range without end is doubled, at last to the greatest number
    recorded: nothing is above that.
    """
    is_upward = needs_more == aim.rises
    sign, bound = (1, aim.high) if is_upward else (-1, aim.low)
    edge = max(tried, key=lambda each: sign * each.value)
    steps = sum(sign * each.value > sign * tried[0].value for each in tried)
    if edge.value == bound or (math.isinf(bound) and steps >= _STEPS_OUTWARD):
        return None
    if steps < _STEPS_OUTWARD - 1:
        guess = _where_enough_turn(aim, edge, sign)
        if guess is not None and guess != bound:
            return _rounded(guess, *sorted((edge.value, bound)))
        return (
            edge.value + sign * max(abs(edge.value), 1.0) if math.isinf(bound) else (edge.value + bound) / 2
        )
    if not math.isinf(bound):
        return bound
    numbers = [sign * number for each in tried for numbers in each.decisions for number in numbers]
    return sign * max([sign * edge.value + max(abs(edge.value), 1.0), *numbers])


def _where_enough_turn(aim: Aim, edge: Tried, sign: int) -> float | None:
    """The number that the value has to pass for as many decisions to turn as searches are amiss, and more.

    A decision turns when the value passes its least number, or its greatest where a search needs one above.
    """
    num_amiss = math.ceil(_MARGIN * abs(aim.wanted - edge.searches) * edge.num_questions)
    turning = min if aim.rises else max
    points = sorted(sign * turning(numbers) for numbers in edge.decisions if numbers)
    ahead = [point for point in points if point > sign * edge.value]
    return sign * ahead[num_amiss - 1] if num_amiss <= len(ahead) else None


def _rounded(value: float, low: float, high: float) -> float:
    """To four digits, as long as it stays between."""
    rounded = float(f"{value:.4g}")
    return rounded if low < rounded < high else value
