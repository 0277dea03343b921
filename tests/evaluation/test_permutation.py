import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.evaluation.statistics import compare
from askance.evaluation.statistics.compare import MOST_ENUMERATED, holm_adjusted, permutation_test
from tests.tolerances import near

GAINS = st.lists(st.floats(-1, 1), max_size=24)
PS = st.lists(st.floats(0, 1), max_size=12)


@pytest.mark.parametrize(
    ("gains", "p"),
    [
        ([1.0], 1.0),  # +1 and −1 are as far from 0
        ([1.0, 1.0, 1.0], 2 / 8),
        ([1.0, 1.0, 1.0, 0.0, 0.0], 2 / 8),
        ([3.0, 1.0], 2 / 4),  # ±4, ±2: only ±4 are as far as 4
        ([3.0, -1.0], 4 / 4),  # all are as far as 2
        ([0.5, 0.25, 0.25], 2 / 8),
        ([1.0, 1.0, 1.0, 1.0, -1.0], 2 * (1 + 5) / 32),  # at most one of five signs against the rest
        ([1.0] * 16, 2 / 2**16),
        ([0.0, 0.0], 1.0),
        ([], 1.0),
    ],
)
def test_all_choices_of_signs(gains, p):
    assert permutation_test(gains) == p


def test_rounding_makes_no_sum_smaller():
    """0.1 + 0.2 is a little more than 0.3, and yet as far from 0."""
    assert permutation_test([0.1, 0.2, -0.3]) == 1.0
    assert permutation_test([0.1, 0.2, 0.3, 0.1, 0.2, 0.3]) == 2 / 64


@pytest.fixture
def draws(monkeypatch):
    return lambda number: monkeypatch.setattr(compare, "_RESAMPLES", number)


def test_more_questions_are_drawn_and_come_close_to_the_sign_test(draws):
    """All differences alike: p is that of the binomial, here of at least 14 or at most 6 of 20."""
    gains = [1.0] * 14 + [-1.0] * 6
    draws(40_000)
    found = permutation_test(gains)
    exact = 2 * sum(math.comb(20, k) for k in range(7)) / 2**20
    assert found == near(exact, "share of 40,000", "draws")


def test_drawn_and_enumerated_agree(draws):
    """One further question, whose difference hardly counts, is one too many to go through all signs."""
    gains = list(np.random.default_rng(3).normal(0.2, 0.5, MOST_ENUMERATED))
    draws(40_000)
    exact, drawn = permutation_test(gains), permutation_test([*gains, 1e-12])
    assert drawn == near(exact, "share of 40,000", "draws")


def test_a_drawn_p_is_never_zero_and_depends_on_the_seed_alone(draws, monkeypatch):
    draws(99)
    assert permutation_test([1.0] * 200) == 0.01
    mixed = [1.0, -0.5] * 20
    found = permutation_test(mixed)
    assert permutation_test(mixed) == found
    monkeypatch.setattr(compare, "_SEED", 1)
    assert permutation_test(mixed) != found


def test_blocks_cover_every_draw(draws):
    """So many questions that every draw is a block of its own."""
    draws(3)
    assert permutation_test([1.0] * 1_100_000) == 0.25


@given(GAINS)
@settings(max_examples=60)
def test_exchanging_the_methods_changes_nothing(gains):
    there = permutation_test(gains)
    assert 0 < there <= 1
    assert permutation_test([-gain for gain in gains]) == there


def test_holm_by_hand():
    # Ranked: .01 × 4, .02 × 3, .03 × 2, .04 × 1, each at least as large as the one before.
    assert holm_adjusted([0.04, 0.01, 0.03, 0.02]) == near([0.06, 0.04, 0.06, 0.06])
    assert holm_adjusted([0.5, 0.9]) == [1.0, 1.0]
    assert holm_adjusted([0.03]) == [0.03]
    assert holm_adjusted([]) == []


@given(PS)
@settings(max_examples=60)
def test_holm_keeps_the_order_and_lies_between_the_plain_and_the_strictest(ps):
    adjusted = holm_adjusted(ps)
    for p, raised in zip(ps, adjusted, strict=True):
        assert p <= raised <= min(1.0, len(ps) * p) or raised == p
    ranked = [adjusted[at] for at in sorted(range(len(ps)), key=ps.__getitem__)]
    assert ranked == sorted(ranked)
