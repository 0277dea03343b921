"""How far numbers in tests may be from each other: one table, by number format and operation.

A bound is a length times the unit roundoff of the format times a factor. It counts against the greatest of
the numbers that are compared, or against 1 where they are smaller. The length is that of the longest sum
behind a number: another processor adds it up in another order, and n additions are off by n roundings at
most. The factor is for what else happens to the number; the reason of each row says what that is.

Numbers that are told with few digits, drawn at random or measured have formats of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "1 decimal": 0.05,
    "2 decimals": 5e-3,
    "3 decimals": 5e-4,
    "4 decimals": 5e-5,
    "draws": 1.0,
}
"""How far a number near 1 may be from the nearest one that the format has. For shares of draws the length is
their standard error, and the factor says how many of them."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A row of the table."""

    length: float
    factor: float
    reason: str


TABLE: Mapping[tuple[str, str], Bound] = {
    ("float64", "formula"): Bound(
        100, 10, "a formula of Python floats, written otherwise: under a hundred terms, some of them divided"
    ),
    ("float32", "formula"): Bound(
        10, 10, "a formula of few terms on numbers that were stored in float32 on the way"
    ),
    ("float32", "sum of 400"): Bound(400, 1, "one product of 400 inputs"),
    ("float32", "two layers"): Bound(
        48, 4, "tiny models: sums of up to 48 products (MLP), and attention and MLP in each of two layers"
    ),
    ("float32", "thirty layers"): Bound(
        1536, 1, "SmolLM2: sums of up to 1,536 products; errors of the 30 layers have either sign"
    ),
    ("float16", "two layers"): Bound(
        24, 1, "sums are added in float32, so only results are rounded: about 12 in a row in each of two layers"
    ),
    ("bfloat16", "two layers"): Bound(24, 1, "as in float16"),
    ("4 decimals", "as told"): Bound(1, 1.01, "expected with 4 decimals; the factor is for halves"),
    ("3 decimals", "as told"): Bound(1, 1.01, "expected with 3 decimals"),
    ("2 decimals", "as told"): Bound(1, 1.01, "expected with 2 decimals"),
    ("1 decimal", "as told"): Bound(1, 1.01, "expected with 1 decimal"),
}


def tolerance(number_format: str, operation: str) -> float:
    """How far numbers of this format and operation may be off, as a share of the greatest, or of 1."""
    bound = TABLE[number_format, operation]
    return bound.length * bound.factor * UNIT_ROUNDOFF[number_format]


def near(expected: Any, operation: str = "formula", number_format: str = "float64") -> Any:
    """What equals numbers that are as far from `expected` as they may be: each by its own size.

    Args:
        expected: a number, or a list or a dictionary of numbers.
    """
    most = tolerance(number_format, operation)
    return pytest.approx(expected, rel=most, abs=most)


def assert_near(found: Any, expected: Any, operation: str, number_format: str = "float32") -> None:
    """Arrays or tensors of the same shape and type: no number is farther off than the greatest one allows."""
    for name in ("shape", "dtype"):
        if hasattr(found, name) and hasattr(expected, name):
            assert getattr(found, name) == getattr(expected, name)
    ours, theirs = _array(found), _array(expected)
    greatest = max(1.0, float(np.abs(theirs).max(initial=0)))
    most = tolerance(number_format, operation) * greatest
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=most)


def assert_clear(gaps: Iterable[float], operation: str, number_format: str = "float32") -> None:
    """Each gap of the two best scores is larger than both may be off: the choice is the same everywhere."""
    most = 2 * tolerance(number_format, operation)
    close = [gap for gap in gaps if gap <= most]
    assert not close, f"too close to be compared exactly: {close[:5]} of at most {most:.2g}"


def _array(numbers: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu().double().numpy()
    return np.asarray(numbers, dtype=np.float64)
