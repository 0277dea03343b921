"""From searches at a few values of a parameter to the value that gives a wanted number of them."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]

_RESAMPLES = 2000
_PERCENTILES = (2.5, 97.5)


def monotone(means: Sequence[float]) -> list[float]:
    """The closest sequence (least squares) that never falls: neighbours out of order get their mean."""
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
    """Where a curve reaches `wanted`.

    Args:
        values: of the parameter, from fewest to most searches (so they rise or fall).
        means: searches at each; brought into order first.

    The middle where several values give exactly `wanted`, the nearest end where none does.
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
    """Means over questions drawn with replacement, the same questions for every value of the parameter.

    Args:
        counts: shape [values, questions].

    Returns:
        Shape [values, resamples].
    """
    random = np.random.Generator(np.random.Philox(seed % 2**64))
    drawn = random.integers(counts.shape[1], size=(_RESAMPLES, counts.shape[1]))
    means: NDArray[np.float64] = counts[:, drawn].mean(axis=2)
    return means


def percentile_interval(samples: Sequence[float] | NDArray[np.float64]) -> Interval:
    """The middle 95 %."""
    low, high = np.percentile(samples, _PERCENTILES)
    return float(low), float(high)
