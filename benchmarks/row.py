"""One line of a table of measurements."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured. `ratio` is the median over that of `against`, measured in the same run.

    Attributes:
        goal: what it should be, and whether it is; empty if there is no goal.
    """

    what: str
    median: float
    unit: str
    ratio: float | None = None
    against: str = ""
    goal: str = ""
