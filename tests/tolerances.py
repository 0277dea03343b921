"""How far numbers in tests may be from each other: one table, by number format and operation.

A bound is a length times the unit roundoff of the format times a factor. It counts against the greatest of
the numbers that are compared, or against 1 where they are smaller. The length is that of the longest sum
behind a number: another processor adds it up in another order, and n additions are off by n roundings at
most. The factor is for what else happens to the number; the reason of each row says what that is.

Numbers that are told with few digits, drawn at random or measured have formats of their own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "8 bits": 2.0**-8,
    "steps": 1.0,
    "length in a byte": 2.0**-4,
    "4 digits": 5e-4,
    "2 decimals": 5e-3,
    "3 decimals": 5e-4,
    "4 decimals": 5e-5,
    "scripted": 1.0,
    "draws": 1.0,
}
"""How far a number near 1 may be from the nearest one that the format has. For numbers of draws the length is
their standard error, and the factor says how many of them."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A row of the table."""

    length: float
    factor: float
    reason: str


TABLE: Mapping[tuple[str, str], Bound] = {
    # Numbers of Python.
    ("float64", "formula"): Bound(
        100, 10, "a formula written otherwise: under a hundred terms, and quotients and powers of them"
    ),
    ("float64", "standard deviation"): Bound(
        6.5, 2**26.5, "the root of a difference of 40 terms that may be no more than rounding: root of 2**-53"
    ),
    # Numbers that a network computes in float32, or in float64 with norms in float32.
    ("float32", "formula"): Bound(10, 10, "few terms, of numbers that went through float32 on the way"),
    ("float32", "distribution"): Bound(
        16, 10, "log-probabilities of 50,000 logits, added up in pairs or parts: 16 additions in a row"
    ),
    ("float32", "two layers"): Bound(
        48, 4, "tiny models: sums of up to 48 products, in attention and MLP of each of two layers"
    ),
    ("float32", "thirty layers"): Bound(
        1536, 1, "SmolLM2: sums of up to 1,536 products; what 30 layers add to that has either sign"
    ),
    ("float32", "attention of thirty layers"): Bound(64, 4, "scores of heads of 64 numbers, near 1 or less"),
    ("float32", "same steps again"): Bound(16, 1, "the same training, gone on with in another process"),
    ("float32", "unit vector"): Bound(384, 0.5, "384 squares; the root halves what a sum is off"),
    ("float32", "encoder"): Bound(
        1536, 0.05, "sums of 1,536 products, of which numbers near 0.05 come: 384 of them make a length of 1"
    ),
    ("float32", "BM25"): Bound(12, 10, "twelve terms, each of six operations, added up in float32"),
    ("float32", "ties of BM25"): Bound(12, 1.4, "twelve terms, the same in another order"),
    # Coarser formats: sums are added up in float32 and only results are rounded.
    ("float16", "two layers"): Bound(24, 1, "about 12 results in a row in each of two layers"),
    ("bfloat16", "two layers"): Bound(24, 1, "as in float16"),
    ("float16", "adapter in the file"): Bound(
        16, 0.5, "four layers of rank 4, each factor rounded, in each of two layers; errors have either sign"
    ),
    # Llama.cpp, which keeps keys and values in float16 and multiplies 8 bits with 8 bits.
    ("float32", "llama.cpp"): Bound(
        420, 4, "tiny models with keys and values in float32; exp is approximated"
    ),
    ("float16", "keys and values"): Bound(8, 5, "scores of heads of 8 numbers, in two layers, and values"),
    ("float16", "one layer, keys and values"): Bound(8, 1.25, "scores of heads of 8 numbers, in one layer"),
    ("float16", "weights, keys and values"): Bound(
        8, 2.5, "as keys and values, for entropies and sums alone"
    ),
    ("float16", "flash attention"): Bound(
        8, 25, "as keys and values; scores and their sums are float16, too"
    ),
    ("float16", "read twice"): Bound(2, 1, "the same text in passes of other sizes: one rounding in each"),
    ("8 bits", "thirty layers"): Bound(30, 1.7, "one rounding in each of 30 layers"),
    ("8 bits", "7 bits"): Bound(
        20, 8, "weights of random matrices and the numbers between them, in 7 bits each: two layers add up"
    ),
    ("8 bits", "read twice"): Bound(5, 1, "the same text in passes of other sizes"),
    ("steps", "rounded to 8 bits"): Bound(0.5, 1.2, "half a step, whose size is itself rounded to float16"),
    # Numbers that are told or kept with few digits.
    ("length in a byte", "BM25"): Bound(
        1, 0.8, "a length is rounded down to 4 significant bits; three quarters of it count (b), and more"
    ),
    ("length in a byte", "ties of BM25"): Bound(
        1, 0.16, "several terms are off alike, so orders are less so"
    ),
    ("4 digits", "in order"): Bound(
        2, 1, "ranked by scores rounded to 4 digits: neighbours differ by a unit"
    ),
    ("2 decimals", "as told"): Bound(1, 1.01, "the last digit is rounded"),
    ("3 decimals", "as told"): Bound(1, 1.01, "the last digit is rounded"),
    ("4 decimals", "as told"): Bound(1, 1.01, "the last digit is rounded"),
    ("scripted", "entropy"): Bound(0.033, 1, "a script's entropy is met by a whole number of equal tokens"),
    # Numbers that are drawn: standard errors.
    ("draws", "share of 2,000"): Bound(0.0112, 3.6, "of one half: the root of 0.25 / 2,000"),
    ("draws", "share of 40,000"): Bound(0.0016, 3.75, "of a tenth: the root of 0.1 / 40,000"),
    ("draws", "coverage"): Bound(0.0154, 3.3, "95 % of 200 intervals: the root of 0.95 * 0.05 / 200"),
    ("draws", "mean of 100"): Bound(0.001, 5, "of 100 numbers with a standard deviation of 0.01"),
    ("draws", "interval of 400"): Bound(0.0025, 1.6, "one of 400 questions more or less"),
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
