"""One line of a table of measurements."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement.

    Attributes:
        ratio: The median divided by the median of `against`, measured in the same run.
        goal: The goal, and whether it is met; empty if there is no goal.
    """

    what: str
    median: float
    unit: str
    ratio: float | None = None
    against: str = ""
    goal: str = ""


def row(
    what: str,
    values: Sequence[float],
    unit: str,
    against: str = "",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Row:
    """Return a row with the median of the values, and whether the median meets the goal, if there is one."""
    median, goal = statistics.median(values), ""
    if at_least is not None:
        goal = f">= {at_least:g}: {'met' if median >= at_least else 'missed'}"
    if at_most is not None:
        goal = f"<= {at_most:g}: {'met' if median <= at_most else 'missed'}"
    return Row(what, median, unit, against=against, goal=goal)


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call of `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
