"""Confidence intervals of means, and the paired permutation test with the interval that agrees with it.

The interval of a mean is that of Gaffke 2005, "Three Test Statistics for a Nonparametric One-Sided Hypothesis
on the Mean of a Nonnegative Variable", as in Learned-Miller & Thomas 2019, "A New Confidence Interval for the
Mean of a Bounded Random Variable" (arXiv 1905.06208). It is a Bayesian bootstrap (Rubin 1981) with one more
score at the end of the scale: at the lower one for the lower limit, at the upper one for the upper limit. It
therefore always has a width, even if all scores are equal. For scores that are all 0 or 1, it is the exact
interval of Clopper & Pearson 1934, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the
Binomial", which needs no draws. The scale is 0 to 1, or the range of the scores if they exceed that.

The permutation test of paired scores (Fisher 1935, "The Design of Experiments", section 21; Noreen 1989,
"Computer-Intensive Methods for Testing Hypotheses") assumes that the two methods are alike, so the difference
on each question could equally well have the opposite sign. p is the fraction of all sign assignments whose
mean is at least as far from 0 as the observed mean. If there are too many assignments to enumerate, m of them
are drawn at random. If b of these have a mean at least as far from 0 as the observed mean, the estimate of p
is (b + 1) / (m + 1), which is never 0 (Phipson & Smyth 2010, "Permutation P-values Should Never Be Zero"). If
all differences have the same size, as for scores of 0 and 1, the test is the exact one of McNemar 1947, "Note
on the Sampling Error of the Difference Between Correlated Proportions", which is binomial.

The interval of a difference inverts this test. The differences that are not 0 are tested; the means of their
subsets are limits for their own mean (Hartigan 1969, "Using Subsample Values as Typical Values"). Each is
multiplied by a draw of the fraction of questions that differ, from the beta distributions of Clopper and
Pearson. If all differences have the same size, Gaffke's interval does this exactly. So the interval contains
0 exactly if p is at least 0.05.

An interval reflects only the choice of questions, not the model, its randomness or the index.

Multiple tests are corrected by the method of Holm 1979, "A Simple Sequentially Rejective Multiple Test
Procedure".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log, log1p

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import InputError

Numbers = NDArray[np.float64]
MOST_ENUMERATED = 16
"""The maximum number of differing questions for which all 65,536 sign assignments are enumerated."""
CONFIDENCE = 0.95
_RESAMPLES, _SEED = 10_000, 0
_DRAWS_AT_ONCE = 1 << 20
_RELATIVE_ROUNDING = 1e-9
ROUNDING = 1e-12
"""The difference of two scores up to which they count as equal."""
_BISECTIONS = 50


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over questions with its confidence interval.

    Attributes:
        low, high: The ends of the interval.
    """

    mean: float
    low: float
    high: float
    num_questions: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"


def mean_interval(scores: Sequence[float]) -> MeanInterval:
    """Return the mean of the per-question scores, with its 95 % interval.

    Raises:
        InputError: There are no scores, or a score is not finite.
    """
    values = checked_scores(scores)
    if np.isin(values, (0, 1)).all():
        low, high = _exact_interval(int(values.sum()), len(values))
    else:
        low, high = middle_95(*drawn_means(values))
    return MeanInterval(float(values.mean()), low, high, len(values))


def average_interval(groups: Sequence[Sequence[float]]) -> MeanInterval:
    """Return the unweighted mean of the mean scores of several datasets, with its 95 % interval.

    Questions are drawn within each dataset, so that every dataset keeps its weight.

    Args:
        groups: The per-question scores of each dataset.

    Raises:
        InputError: There is no dataset, or as for `mean_interval` in one of them.
    """
    if not groups:
        raise InputError("there are no datasets to average over: name at least one.")
    if len(groups) == 1:
        return mean_interval(groups[0])
    values = [checked_scores(scores) for scores in groups]
    draws = [drawn_means(scores, seed=number) for number, scores in enumerate(values)]
    mean = float(np.mean([scores.mean() for scores in values]))
    return MeanInterval(mean, *middle_95(*np.mean(draws, axis=0)), sum(map(len, groups)))


def paired_difference(first: Mapping[str, float], second: Mapping[str, float]) -> MeanInterval:
    """Return the mean difference of two methods' scores, with its 95 % interval, as `paired_test` does."""
    return paired_test(first, second)[0]


def paired_test(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[MeanInterval, float]:
    """Return the mean difference of two methods' scores with its 95 % interval, and p.

    The interval contains 0 exactly if p, that of `permutation_test`, is at least 0.05.

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
    one, two = (checked_scores([scores[id] for id in sorted(first)]) for scores in (first, second))
    gains = np.where(np.abs(one - two) > ROUNDING, one - two, 0.0)
    values, mean = gains[gains != 0], float(gains.mean())
    scale = max(1.0, float(np.ptp([one, two])))
    if _are_alike(values):
        size = float(np.abs(values[0])) if len(values) else scale
        p, (lows, highs) = permutation_test(values.tolist()), drawn_means(gains, (-size, size))
    else:
        p, sums, sizes = _permuted(values)
        lows, highs = _drawn_differences(sums, sizes, len(values), len(gains), scale)
    low, high = middle_95(lows, highs)
    # In theory the ends agree with p. The draws of the fraction that differs are random, so p decides.
    if p >= 1 - CONFIDENCE:
        low, high = min(low, 0.0), max(high, 0.0)
    elif mean > 0:
        low = max(low, float(lows[lows > 0].min()))
    else:
        high = min(high, float(highs[highs < 0].max()))
    return MeanInterval(mean, low, high, len(gains)), p


def permutation_test(gains: Sequence[float]) -> float:
    """Return the two-sided p-value of the paired permutation test.

    It is exact if at most `MOST_ENUMERATED` questions differ, since all sign assignments are enumerated then,
    and if all differences have the same size.

    Args:
        gains: The score difference on each question. Differences of 0 have no effect. If all are 0, p is 1.
    """
    values = np.asarray([gain for gain in gains if abs(gain) > ROUNDING], dtype=np.float64)
    if len(values) <= MOST_ENUMERATED or not _are_alike(values):
        return _permuted(values)[0]
    num_less = min(int(np.sum(values > 0)), int(np.sum(values < 0)))
    return min(1.0, 2 * _binomial_tail(num_less, len(values), 0.5))


def percentile_interval(samples: Sequence[float] | Numbers) -> tuple[float, float]:
    """Return the ends of the interval that holds the middle 95 % of the statistics of resamples."""
    return middle_95(np.asarray(samples), np.asarray(samples))


def middle_95(lows: Numbers, highs: Numbers) -> tuple[float, float]:
    """Return the lower end of the middle 95 % of `lows`, and the upper end of that of `highs`."""
    return float(np.quantile(lows, (1 - CONFIDENCE) / 2)), float(np.quantile(highs, (1 + CONFIDENCE) / 2))


def checked_scores(scores: Sequence[float]) -> Numbers:
    values = np.asarray(scores, dtype=np.float64)
    if not values.size:
        raise InputError("there are no scores to take a mean of: name a dataset with at least one question.")
    if not np.isfinite(values).all():
        index = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(f"score {index + 1} of {values.size} is {values[index]}: give finite numbers.")
    return values


def _exact_interval(num_right: int, num: int) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson for a probability."""

    def highest(num_right: int) -> float:
        """Return the highest probability at which so few successes are not too rare."""
        low, high = 0.0, 1.0
        for _ in range(_BISECTIONS if num_right < num else 0):
            middle = (low + high) / 2
            is_rare = _binomial_tail(num_right, num, middle) < (1 - CONFIDENCE) / 2
            low, high = (low, middle) if is_rare else (middle, high)
        return high

    return 1 - highest(num - num_right), highest(num_right)


def _binomial_tail(most: int, num: int, probability: float) -> float:
    """Return the probability of at most `most` successes in `num` trials."""
    counts = np.arange(1, most + 1)
    ways = np.concatenate(([0.0], np.cumsum(np.log((num + 1 - counts) / counts))))
    counts = np.arange(most + 1)
    return float(np.exp(ways + counts * log(probability) + (num - counts) * log1p(-probability)).sum())


def drawn_means(values: Numbers, scale: tuple[float, float] | None = None, seed: int = _SEED) -> Numbers:
    """Return 10,000 draws of the lower limit of the mean, and 10,000 of the upper limit.

    A draw is a mean with random weights, in which the end of the scale has the weight of one question. It
    depends only on the total weight of each distinct score, so these totals are drawn.

    Args:
        scale: The ends of the scale; by default 0 and 1, or the range of the scores if they exceed that.
    """
    random = np.random.default_rng(seed)
    least, most = scale or (min(0.0, float(values.min())), max(1.0, float(values.max())))
    _, first, counts = np.unique(values, return_index=True, return_counts=True)
    # Scores stay in the order of the questions, so that swapping two methods mirrors their interval.
    order = np.argsort(first)
    distinct, counts = values[first[order]], counts[order]

    def draw(num_means: int) -> Numbers:
        weights = random.standard_gamma(counts, (num_means, len(counts)))
        end, sums = random.standard_exponential(num_means), weights @ distinct
        return np.asarray(np.stack([sums + least * end, sums + most * end]) / (weights.sum(axis=1) + end))

    return _in_blocks(draw, len(counts))


def _drawn_differences(
    sums: Numbers, sizes: Numbers, num_differing: int, num: int, scale: float
) -> list[Numbers]:
    """Return draws of the lower limit of a mean difference, and of the upper limit.

    Args:
        sums, sizes: The sums and sizes of subsets of the differences that are not 0.
        scale: The greatest possible difference, which the empty subset stands for.
    """
    random, repeats = np.random.default_rng(_SEED), -(-_RESAMPLES // len(sums))
    shape = repeats * len(sums)
    differing, alike = (random.standard_gamma(each, shape) for each in (num_differing, num - num_differing))
    end, draws = random.standard_exponential(shape), []
    for side in (-scale, scale):
        means = np.tile(np.where(sizes > 0, sums / np.maximum(sizes, 1), side), repeats)
        draws.append(means * (differing + end * (means * side >= 0)) / (differing + alike + end))
    return draws


def _in_blocks(draw: Callable[[int], Numbers], width: int) -> Numbers:
    """Return 10,000 draws, made in blocks that fit into memory.

    Args:
        draw: Returns an array with a column for each of a number of draws.
        width: The number of random numbers that one draw takes.
    """
    rows = max(1, _DRAWS_AT_ONCE // width)
    blocks = [draw(min(rows, _RESAMPLES - done)) for done in range(0, _RESAMPLES, rows)]
    return np.concatenate(blocks, axis=1)


def _are_alike(values: Numbers) -> bool:
    """Return whether all differences have the same size."""
    return not len(values) or float(np.ptp(np.abs(values))) <= ROUNDING


def _permuted(values: Numbers) -> tuple[float, Numbers, Numbers]:
    """Return p, and the sums and sizes of the subsets of differences whose signs were flipped."""
    sums, sizes = _subsets(values)
    # The tolerance makes sums of the same numbers in a different order count as equal.
    total, rounding = float(values.sum()), _RELATIVE_ROUNDING * float(np.abs(values).sum())
    num_as_far = int(np.sum(np.abs(total - 2 * sums) >= abs(total) - rounding))
    unseen = int(len(values) > MOST_ENUMERATED)
    return (num_as_far + unseen) / (len(sums) + unseen), np.where(np.abs(sums) > rounding, sums, 0.0), sizes


def _subsets(values: Numbers) -> Numbers:
    """Return the sums and sizes of all subsets of the differences or, if these are too many, of 10,000."""
    rows = np.stack([values, np.ones(len(values))])
    if len(values) <= MOST_ENUMERATED:
        subsets = np.zeros((2, 1))
        for row in rows.T:
            subsets = np.concatenate((subsets, subsets + row[:, None]), axis=1)
        return subsets
    random, num = np.random.default_rng(_SEED), len(values)

    def draw(draws: int) -> Numbers:
        packed = random.integers(256, size=(draws, -(-num // 8)), dtype=np.uint8)
        return rows @ np.unpackbits(packed, axis=1, count=num).T.astype(np.float64)

    return _in_blocks(draw, num)


def holm_adjusted(ps: Sequence[float]) -> list[float]:
    """Return the p-values corrected for multiple tests by Holm's method, in the order of `ps`."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted
