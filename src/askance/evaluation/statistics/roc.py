"""Functions that separate two kinds of cases by numbers: the area under a ROC curve, logistic regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan

import numpy as np
from numpy.typing import NDArray

from askance.evaluation.statistics.compare import Numbers, percentile_interval

Counts = NDArray[np.int64]
_RESAMPLES = 1000
_CONVERGED, _MOST_STEPS = 1e-9, 100


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
    order, num_pairs = np.argsort(negative), len(positive) * len(negative)
    ordered = np.asarray(negative)[order]
    below, not_above = np.searchsorted(ordered, positive), np.searchsorted(ordered, positive, "right")

    def area(positives: Counts, negatives: Counts) -> float:
        sums = np.append(0, negatives[order].cumsum())
        return float(positives @ (sums[below] + sums[not_above])) / 2 / num_pairs

    areas = list(map(area, *_drawn_counts(len(positive), len(negative))))
    return RocArea(float((below + not_above).mean()) / 2 / len(negative), *percentile_interval(areas))


@lru_cache(maxsize=1)
def _drawn_counts(*sizes: int) -> list[Counts]:
    """Return how often each case is in each resample: for each kind, of shape [resamples, cases]."""
    random = np.random.default_rng(0)
    return [random.multinomial(size, np.full(size, 1 / size), _RESAMPLES) for size in sizes]


def shown_area(area: RocArea | None) -> str:
    """Return an area with its interval, as reports show it."""
    return "" if area is None else f"{area.area:.3f} ({area.low:.3f} to {area.high:.3f})"


def logistic(matrix: Numbers, targets: Numbers, weights: Numbers, penalty: float) -> Numbers:
    """Return the coefficients of a logistic regression, by Newton's method.

    Args:
        matrix: The inputs, of shape [rows, columns]. The first column, the intercept, is not penalised.
        targets: The wanted probabilities, of shape [rows].
        weights: The weights of the rows in the loss, of shape [rows].
        penalty: The weight of half the sum of squared coefficients.
    """
    ridge = penalty * np.eye(matrix.shape[1])
    ridge[0, 0] = _CONVERGED
    coefficients = np.zeros(matrix.shape[1])
    for _ in range(_MOST_STEPS):
        probabilities = 0.5 * (1 + np.tanh(matrix @ coefficients / 2))
        gradient = matrix.T @ (weights * (probabilities - targets)) + ridge @ coefficients
        curvature = (matrix.T * (weights * probabilities * (1 - probabilities))) @ matrix + ridge
        step = np.linalg.solve(curvature, gradient)
        coefficients -= step
        if np.abs(step).max() < _CONVERGED:
            break
    return coefficients
