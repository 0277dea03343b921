"""Interpolate the value of a parameter for a wanted number of searches, with a confidence interval."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]

_RESAMPLES = 2000
_PERCENTILES = (2.5, 97.5)


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
    if first in (0, len(values)):
        return values[min(first, len(values) - 1)]
    share = (wanted - ordered[first - 1]) / (ordered[first] - ordered[first - 1])
    return values[first - 1] + share * (values[first] - values[first - 1])


def resampled_means(counts: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return bootstrap means over questions, with the same questions drawn for every value of the parameter.

    Args:
        counts: The number of searches for each value and question: shape [values, questions].

    Returns:
        The means of each resample: shape [values, resamples].
    """
    random = np.random.Generator(np.random.Philox(seed % 2**64))
    drawn = random.integers(counts.shape[1], size=(_RESAMPLES, counts.shape[1]))
    means: NDArray[np.float64] = counts[:, drawn].mean(axis=2)
    return means


def percentile_interval(samples: Sequence[float] | NDArray[np.float64]) -> Interval:
    """Return the bounds of the middle 95 % of the samples."""
    low, high = np.percentile(samples, _PERCENTILES)
    return float(low), float(high)
