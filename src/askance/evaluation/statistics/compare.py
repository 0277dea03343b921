"""Bootstrap confidence intervals, the paired bootstrap and the paired permutation test.

The bootstrap is that of Efron 1979, "Bootstrap Methods: Another Look at the Jackknife". For two systems that
answered the same questions, it is paired, as in Koehn 2004, "Statistical Significance Tests for Machine
Translation Evaluation". Questions are drawn with replacement, and intervals are percentiles. An interval
reflects only the choice of questions, not the model, its randomness or the index. If all scores are equal,
the interval has no width, even for few questions.

The permutation test of paired scores (Fisher 1935, "The Design of Experiments", section 21; Noreen 1989,
"Computer-Intensive Methods for Testing Hypotheses") assumes that the two methods are alike, so the difference
on each question could equally well have the opposite sign. p is the fraction of all sign assignments whose
mean is at least as far from 0 as the observed mean. If there are too many assignments to enumerate, m of them
are drawn at random. If b of these have a mean at least as far from 0 as the observed mean, the estimate of p
is (b + 1) / (m + 1), which is never 0 (Phipson & Smyth 2010, "Permutation P-values Should Never Be Zero").

Multiple tests are corrected by the method of Holm 1979, "A Simple Sequentially Rejective Multiple Test
Procedure".

With 5,000 questions, an interval takes 0.01 s and a test 0.1 s here; those of scipy 1.17 take 0.4 s and 4 s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import InputError

MOST_ENUMERATED = 16
"""The maximum number of differing questions for which all 65,536 sign assignments are enumerated."""
CONFIDENCE = 0.95
_RESAMPLES, _SEED = 10_000, 0
_DRAWS_AT_ONCE = 1 << 20
_RELATIVE_ROUNDING = 1e-9
_REPEATED = 8


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over questions with its confidence interval.

    Attributes:
        low, high: The ends of the interval.
        confidence: The confidence level, such as 0.95.
    """

    mean: float
    low: float
    high: float
    num_questions: int
    confidence: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"


def mean_interval(scores: Sequence[float]) -> MeanInterval:
    """Return the mean of the per-question scores, with its 95 % bootstrap interval.

    Raises:
        InputError: There are no scores, or a score is not finite.
    """
    return _interval(scores)[0]


def average_interval(groups: Sequence[Sequence[float]]) -> MeanInterval:
    """Return the unweighted mean of the mean scores of several datasets, with its bootstrap interval.

    Questions are drawn within each dataset, so that every dataset keeps its weight.

    Args:
        groups: The per-question scores of each dataset.

    Raises:
        InputError: There is no dataset, or as for `mean_interval` in one of them.
    """
    if not groups:
        raise InputError("there are no datasets to average over: name at least one.")
    found = [_interval(scores, _SEED + number) for number, scores in enumerate(groups)]
    low, high = percentile_interval(np.mean([means for _, means in found], axis=0))
    mean = float(np.mean([interval.mean for interval, _ in found]))
    return MeanInterval(mean, low, high, sum(map(len, groups)), CONFIDENCE)


def paired_difference(first: Mapping[str, float], second: Mapping[str, float]) -> MeanInterval:
    """Return the mean difference of two methods' scores, with its paired bootstrap interval.

    Args:
        first, second: The scores of the two methods by question id, in any order.

    Raises:
        InputError: A question has a score for only one of the methods, or as for `mean_interval`.
    """
    unpaired = sorted(first.keys() ^ second.keys())
    if unpaired:
        raise InputError(
            f"{len(unpaired)} questions have a score of one method only, such as {unpaired[0]!r}: compare "
            "methods over the same questions."
        )
    return mean_interval([first[id] - second[id] for id in sorted(first)])


def _interval(scores: Sequence[float], seed: int = _SEED) -> tuple[MeanInterval, NDArray[np.float64]]:
    """Return the mean with its interval, and the means of the resamples."""
    values = np.asarray(scores, dtype=np.float64)
    if not values.size:
        raise InputError("there are no scores to take a mean of: name a dataset with at least one question.")
    if not np.isfinite(values).all():
        index = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(f"score {index + 1} of {values.size} is {values[index]}: give finite numbers.")
    means = _resampled_means(values, seed)
    return MeanInterval(float(values.mean()), *percentile_interval(means), len(values), CONFIDENCE), means


def percentile_interval(samples: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the interval that holds the middle 95 % of the statistics of resamples."""
    low, high = np.quantile(samples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def _resampled_means(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return the means of 10,000 bootstrap samples, each as large as `values`.

    A mean depends only on how often each distinct score is drawn. If there are few distinct scores, as for
    most metrics, these counts are drawn from their multinomial distribution, which is 100 times faster.
    """
    random, num = np.random.default_rng(seed), len(values)
    _, first, counts = np.unique(values, return_index=True, return_counts=True)
    # Scores stay in the order of the questions, so that swapping two methods mirrors their interval.
    order = np.argsort(first)
    distinct, shares = values[first[order]], counts[order] / num
    are_few = len(distinct) <= num / _REPEATED

    def draw(num_means: int) -> NDArray[np.float64]:
        if are_few:
            return random.multinomial(num, shares, size=num_means) @ distinct / num
        drawn = values[random.integers(num, size=(num_means, num))]
        return np.asarray(drawn.mean(axis=1), dtype=np.float64)

    return np.concatenate(list(map(draw, _blocks(_RESAMPLES, len(distinct) if are_few else num))))


def _blocks(draws: int, width: int) -> list[int]:
    """Split a number of draws into blocks that fit into memory, and return the number of draws per block.

    Args:
        width: The number of random numbers that one draw takes.
    """
    rows = max(1, _DRAWS_AT_ONCE // width)
    return [min(rows, draws - done) for done in range(0, draws, rows)]


def permutation_test(gains: Sequence[float]) -> float:
    """Return the two-sided p-value of the paired permutation test.

    It is exact if at most `MOST_ENUMERATED` questions differ, since all sign assignments are enumerated then.

    Args:
        gains: The score difference on each question. Differences of 0 have no effect. If all are 0, p is 1.
    """
    values = np.asarray([gain for gain in gains if gain], dtype=np.float64)
    # The tolerance makes sums of the same numbers in a different order count as equal.
    least = abs(float(values.sum())) - _RELATIVE_ROUNDING * float(np.abs(values).sum())
    if len(values) <= MOST_ENUMERATED:
        return float(np.mean(np.abs(_all_sums(values)) >= least))
    return (_num_as_far(values, least) + 1) / (_RESAMPLES + 1)


def holm_adjusted(ps: Sequence[float]) -> list[float]:
    """Return the p-values corrected for multiple tests by Holm's method, in the order of `ps`."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def _all_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums + value, sums - value))
    return sums


def _num_as_far(values: NDArray[np.float64], least: float) -> int:
    """Return the number of 10,000 random sign assignments whose sum is at least `least` away from 0."""
    random = np.random.default_rng(_SEED)
    # Each sign is flipped with probability 1/2; the sum is the total minus twice the flipped values.
    blocks = _blocks(_RESAMPLES, len(values))
    flipped = (random.integers(2, size=(n, len(values)), dtype=np.int8) @ values for n in blocks)
    return sum(int(np.sum(np.abs(values.sum() - 2 * part) >= least)) for part in flipped)
