"""The area under the ROC curve: how well a number separates two kinds of cases."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan

import numpy as np

from askance.evaluation.statistics.compare import Numbers, percentile_interval

_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class RocArea:
    """The area under the ROC curve, with its 95 % bootstrap interval."""

    area: float
    low: float
    high: float


def roc_area(positive: Sequence[float], negative: Sequence[float]) -> RocArea:
    """Return how well a number separates positive cases, whose numbers should be greater, from negative ones.

    The area is the share of pairs, one of each kind, in which the positive case has the greater number. Equal
    numbers count half (Mann and Whitney 1947). Resamples draw from both kinds. Without a case of either kind,
    the area is not a number.
    """
    if not len(positive) or not len(negative):
        return RocArea(nan, nan, nan)
    above, below = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    wins = (above[:, None] > below) + 0.5 * (above[:, None] == below)
    counts = _drawn_counts(len(above), len(below))
    areas = ((counts[0] @ wins) * counts[1]).sum(axis=1) / wins.size
    return RocArea(float(wins.mean()), *percentile_interval(areas))


@lru_cache(maxsize=1)
def _drawn_counts(*sizes: int) -> list[Numbers]:
    """Return how often each case is in each resample: for each kind, of shape [resamples, cases]."""
    random = np.random.default_rng(0)
    drawn = (random.multinomial(size, np.full(size, 1 / size), _RESAMPLES) for size in sizes)
    return [counts.astype(np.float64) for counts in drawn]


def shown_area(area: RocArea | None) -> str:
    """Return an area with its interval, as reports show it."""
    return "" if area is None else f"{area.area:.3f} ({area.low:.3f} to {area.high:.3f})"
