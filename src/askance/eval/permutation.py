"""Whether two methods that answered the same questions differ by more than chance.

The randomisation test of paired scores (Fisher 1935, "The Design of Experiments", section 21; Noreen 1989,
"Computer-Intensive Methods for Testing Hypotheses"): if the two methods were alike, the difference of each
question could as well have the other sign. p is the share of all choices of signs whose mean is at least as
far from 0 as the one that was found. Where there are too many choices, p is estimated from random ones by
(b + 1) / (m + 1) (Phipson & Smyth 2010, "Permutation P-values Should Never Be Zero"), so that it is never 0.

Several tests are put right together by Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_ENUMERATED = 16
"""Up to so many questions with a difference, all choices of signs are gone through: 65,536 of them."""
_DRAWS_AT_ONCE = 1 << 20
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class PValue:
    """A two-sided p; `is_exact` where all choices of signs were gone through."""

    p: float
    is_exact: bool


def sign_flip_p(gains: Sequence[float], *, draws: int = 10_000, seed: int = 0) -> PValue:
    """Of the differences question by question. Those that are 0 change nothing: with no other, p is 1.

    Args:
        draws: how many choices of signs are drawn where there are too many to go through.
    """
    values = np.asarray([gain for gain in gains if gain], dtype=np.float64)
    # Sums of the same numbers in another order must not differ.
    least = abs(float(values.sum())) - _ROUNDING * float(np.abs(values).sum())
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
    """Drawn in blocks, so that memory stays bounded for any number of questions."""
    random = np.random.default_rng(seed)
    rows = max(1, _DRAWS_AT_ONCE // len(values))
    blocks = [min(rows, draws - done) for done in range(0, draws, rows)]
    # Half of the signs are flipped: the sum is the total less twice the flipped ones.
    flipped = (random.integers(2, size=(n, len(values)), dtype=np.int8) @ values for n in blocks)
    return sum(int(np.sum(np.abs(values.sum() - 2 * part) >= least)) for part in flipped)
