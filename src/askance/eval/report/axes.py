"""Scales of charts: where a number lies, and which round numbers to mark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_WIDE = 8
# Values this near each other differ by rounding: no round numbers are between them.
_SAME = 1e-6
_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers from `low` to `high` on a line from `start` to `end`, in pixels."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """In pixels."""
        low, high, place = self.low, self.high, value
        if self.is_log:
            low, high, place = math.log(low), math.log(high), math.log(value)
        return self.start + (place - low) / (high - low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Round numbers within the scale, about five."""
        return _log_ticks(self.low, self.high) if self.is_log else _even_ticks(self.low, self.high)


def scale_of(values: list[float], start: float, end: float, *, may_be_log: bool = False) -> Scale:
    """A scale with a little room around the values; logarithmic where they are far apart and above 0."""
    low, high = min(values), max(values)
    if may_be_log and low > 0 and high / low >= _WIDE:
        room = (high / low) ** 0.08
        return Scale(low / room, high * room, start, end, is_log=True)
    spread = 0.0 if math.isclose(low, high, rel_tol=_SAME) else high - low
    room = spread * 0.08 or abs(high) * 0.1 or 1.0
    least = 0.0 if low >= 0 else -math.inf
    return Scale(max(least, low - room), high + room, start, end)


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """All with as many decimals as the one that needs most, and with separators for thousands."""
    decimals = next(number for number in range(7) if number == 6 or _are_exact(ticks, number))
    return [f"{tick:,.{decimals}f}" for tick in ticks]


def _are_exact(ticks: Sequence[float], decimals: int) -> bool:
    return all(math.isclose(tick, round(tick, decimals), abs_tol=1e-9) for tick in ticks)


def _even_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * step for step in _STEPS if unit * step >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 8:
            break
    return ticks
