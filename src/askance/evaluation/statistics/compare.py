"""How sure a mean, or the difference between two methods, is: the bootstrap over questions, and whether two
methods that answered the same questions differ by more than chance.

Efron 1979, "Bootstrap Methods: Another Look at the Jackknife"; paired, for systems that answered the same
questions, as in Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation".

Questions are drawn with replacement; intervals are percentiles. What varies is the choice of questions alone,
not the model, its randomness or the index. Where all scores are the same the interval has no width, however
few they are.

The randomisation test of paired scores (Fisher 1935, "The Design of Experiments", section 21; Noreen 1989,
"Computer-Intensive Methods for Testing Hypotheses"): if the two methods were alike, the difference of each
question could as well have the other sign. p is the share of all choices of signs whose mean is at least as
far from 0 as the one that was found. Where there are too many choices, p is estimated from random ones by
(b + 1) / (m + 1) (Phipson & Smyth 2010, "Permutation P-values Should Never Be Zero"), so that it is never 0.

Several tests are put right together by Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import InputError

MOST_ENUMERATED = 16
"""Up to so many questions with a difference, all choices of signs are gone through: 65,536 of them."""
_DRAWS_AT_ONCE = 1 << 20
_ROUNDING, _RELATIVE_ROUNDING = 1e-12, 1e-9
_REPEATED = 8


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over questions, and the interval that holds it with `confidence`."""

    mean: float
    low: float
    high: float
    num_questions: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Difference(MeanInterval):
    """The mean of the first method run minus the second, over the same questions.

    Attributes:
        share_above_zero: the share of resamples in which the first method is better; a tie is not.
    """

    share_above_zero: float


@dataclass(frozen=True, slots=True)
class PValue:
    """A two-sided p; `is_exact` where all choices of signs were gone through."""

    p: float
    is_exact: bool


def mean_interval(
    scores: Sequence[float], *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> MeanInterval:
    """The mean of one score per question.

    Raises:
        InputError: no scores, one that is no number, or a setting out of range.
    """
    return _interval(np.asarray(scores, dtype=np.float64), confidence, resamples, seed)[0]


def paired_difference(
    first: Mapping[str, float],
    second: Mapping[str, float],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Difference:
    """How much better `first` is than `second`; both are scores by question id, in any order.

    Raises:
        InputError: questions that only one of them has, or as for `mean_interval`.
    """
    unpaired = sorted(first.keys() ^ second.keys())
    if unpaired:
        raise InputError(
            f"{len(unpaired)} questions have a score of one method only, such as {unpaired[0]!r}: compare "
            "methods over the same questions."
        )
    gains = np.asarray([first[id] - second[id] for id in sorted(first)], dtype=np.float64)
    found, means = _interval(gains, confidence, resamples, seed)
    return Difference(**asdict(found), share_above_zero=float(np.mean(means > _ROUNDING)))


def _interval(
    values: NDArray[np.float64], confidence: float, resamples: int, seed: int
) -> tuple[MeanInterval, NDArray[np.float64]]:
    """The mean with its interval, and the means of resamples."""
    if not values.size:
        raise InputError("there are no scores to take a mean of: name a dataset with at least one question.")
    if not np.isfinite(values).all():
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(f"score {at + 1} of {values.size} is {values[at]}: give each a finite number.")
    if not 0 < confidence < 1:
        raise InputError(f"confidence {confidence}: give a share between 0 and 1, such as 0.95.")
    if resamples < 1:
        raise InputError(f"{resamples} resamples give no interval: take 1 or more.")
    means = _resampled_means(values, resamples, seed)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return MeanInterval(float(values.mean()), float(low), float(high), len(values), confidence), means


def _resampled_means(values: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """The means of `resamples` draws of all questions.

    A mean depends only on how often each distinct score is drawn. Where these are few, as for most metrics,
    those numbers are drawn at once, from their multinomial distribution: the same means, 100 times faster.
    """
    random, num = np.random.default_rng(seed), len(values)
    _, first, counts = np.unique(values, return_index=True, return_counts=True)
    # In the order of the questions, so that exchanging two methods mirrors their difference.
    order = np.argsort(first)
    distinct, shares = values[first[order]], counts[order] / num
    are_few = len(distinct) <= num / _REPEATED

    def draw(num_means: int) -> NDArray[np.float64]:
        if are_few:
            return random.multinomial(num, shares, size=num_means) @ distinct / num
        drawn = values[random.integers(num, size=(num_means, num))]
        return np.asarray(drawn.mean(axis=1), dtype=np.float64)

    return np.concatenate(list(map(draw, _blocks(resamples, len(distinct) if are_few else num))))


def _blocks(draws: int, width: int) -> list[int]:
    """How many draws of `width` numbers are made at once, so that memory stays bounded for any width."""
    rows = max(1, _DRAWS_AT_ONCE // width)
    return [min(rows, draws - done) for done in range(0, draws, rows)]


def sign_flip_p(gains: Sequence[float], *, draws: int = 10_000, seed: int = 0) -> PValue:
    """Of the differences question by question. Those that are 0 change nothing: with no other, p is 1.

    Args:
        draws: how many choices of signs are drawn where there are too many to go through.
    """
    values = np.asarray([gain for gain in gains if gain], dtype=np.float64)
    # Sums of the same numbers in another order must not differ.
    least = abs(float(values.sum())) - _RELATIVE_ROUNDING * float(np.abs(values).sum())
    if len(values) <= MOST_ENUMERATED:
        return PValue(float(np.mean(np.abs(_all_sums(values)) >= least)), is_exact=True)
    return PValue((_num_as_far(values, least, draws, seed) + 1) / (draws + 1), is_exact=False)


def holm(ps: Sequence[float]) -> list[float]:
    """The p of each test, put right for all of them being looked at; in the order given."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, at in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[at]))
        adjusted[at] = largest
    return adjusted


def _all_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums + value, sums - value))
    return sums


def _num_as_far(values: NDArray[np.float64], least: float, draws: int, seed: int) -> int:
    """How many random choices of signs have a sum that is at least as far from 0."""
    random = np.random.default_rng(seed)
    # Half of the signs are flipped: the sum is the total less twice the flipped ones.
    flipped = (
        random.integers(2, size=(n, len(values)), dtype=np.int8) @ values for n in _blocks(draws, len(values))
    )
    return sum(int(np.sum(np.abs(values.sum() - 2 * part) >= least)) for part in flipped)
