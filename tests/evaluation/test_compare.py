"""Intervals, permutation tests and areas under curves, against results known by hand or by enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.core.errors import InputError
from askance.evaluation.statistics import compare
from askance.evaluation.statistics.compare import (
    MOST_ENUMERATED,
    holm_adjusted,
    mean_interval,
    paired_difference,
    permutation_test,
)
from askance.evaluation.statistics.roc import roc_area
from tests.tolerances import near, tolerance

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=20)
PAIRS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20)


@pytest.fixture
def draws(monkeypatch):
    return lambda number: monkeypatch.setattr(compare, "_RESAMPLES", number)


def by_id(values):
    return {f"q{number}": value for number, value in enumerate(values)}


def test_a_mean_against_all_possible_resamples(draws, monkeypatch):
    """Three questions have 27 resamples; their means are known, and how often each is drawn."""
    scores = [0.0, 0.5, 1.0]
    means = sorted(sum(drawn) / 3 for drawn in itertools.product(scores, repeat=3))
    draws(40_000)
    monkeypatch.setattr(compare, "CONFIDENCE", 0.8)
    found = mean_interval(scores)
    # The 10th percentile of 27 values is the third one: 1/6.
    assert (found.mean, found.low, found.high) == near((0.5, means[2], means[-3]))
    assert (found.num_questions, found.confidence) == (3, 0.8)


def test_an_interval_of_many_questions_is_close_to_the_normal_one():
    found = mean_interval([float(number % 4 == 0) for number in range(400)])
    half = 1.96 * math.sqrt(0.25 * 0.75 / 400)
    assert (found.low, found.high) == near((0.25 - half, 0.25 + half), "interval of 400", "draws")


def test_pairing_narrows_the_interval():
    random = np.random.default_rng(5)
    second = random.random(100)
    first = second + 0.1 + 0.01 * random.standard_normal(100)
    found, apart = paired_difference(by_id(first), by_id(second)), mean_interval(first)
    assert found.mean == near(0.1, "mean of 100", "draws")
    assert found.high - found.low < 0.01 < 0.05 < apart.high - apart.low


def test_blocks_cover_every_draw(draws):
    """With so many questions, every draw is a block of its own."""
    draws(5)
    found = mean_interval(np.tile([0.0, 1.0], 600_000))
    assert found.low < found.mean == 0.5 < found.high
    assert found.num_questions == 1_200_000
    assert permutation_test([1.0] * 1_100_000) == 1 / 6


@given(PAIRS)
@settings(max_examples=40)
def test_exchanging_the_methods_mirrors_the_difference(pairs):
    first, second = (by_id(scores) for scores in zip(*pairs, strict=True))
    there, back = paired_difference(first, second), paired_difference(second, first)
    assert (there.mean, there.low, there.high) == near((-back.mean, -back.high, -back.low))
    assert paired_difference(dict(reversed(first.items())), second) == there, "the order does not matter"
    itself = paired_difference(first, first)
    assert (itself.mean, itself.low, itself.high) == (0, 0, 0)


@given(SCORES)
@settings(max_examples=40)
def test_the_interval_stays_within_the_scores(scores):
    found, slack = mean_interval(scores), tolerance("float64", "formula")
    assert min(scores) - slack <= found.low <= found.high <= max(scores) + slack


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([], "no scores"),
        ([1.0, math.nan], "score 2 of 2 is nan"),
        ([math.inf], "score 1 of 1 is inf"),
        ({"a": 1.0, "b": 1.0}, "2 questions have a score of one method only, such as 'a'"),
    ],
)
def test_scores_that_give_no_interval(scores, message):
    with pytest.raises(InputError, match=message):
        paired_difference(scores, {"b": 1, "c": 0}) if isinstance(scores, dict) else mean_interval(scores)


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
        # Rounding makes no sum smaller: 0.1 + 0.2 is a little more than 0.3, and yet as far from 0.
        ([0.1, 0.2, -0.3], 1.0),
        ([0.1, 0.2, 0.3, 0.1, 0.2, 0.3], 2 / 64),
    ],
)
def test_all_choices_of_signs(gains, p):
    assert permutation_test(gains) == p


def test_more_questions_are_drawn_and_come_close_to_all_choices_of_signs(draws):
    """If all differences are alike, p is that of the sign test, here of at least 14 or at most 6 of 20."""
    draws(40_000)
    exact = 2 * sum(math.comb(20, k) for k in range(7)) / 2**20
    assert permutation_test([1.0] * 14 + [-1.0] * 6) == near(exact, "share of 40,000", "draws")
    gains = list(np.random.default_rng(3).normal(0.2, 0.5, MOST_ENUMERATED))
    drawn = permutation_test([*gains, 1e-12])  # one more than are enumerated, which hardly counts
    assert drawn == near(permutation_test(gains), "share of 40,000", "draws")


def test_a_drawn_p_is_never_zero_and_depends_on_the_seed_alone(draws, monkeypatch):
    draws(99)
    assert permutation_test([1.0] * 200) == 0.01
    mixed = [1.0, -0.5] * 20
    found = permutation_test(mixed)
    assert permutation_test(mixed) == found
    monkeypatch.setattr(compare, "_SEED", 1)
    assert permutation_test(mixed) != found


@given(st.lists(st.floats(-1, 1), max_size=18))
@settings(max_examples=40)
def test_exchanging_the_methods_changes_no_p(gains):
    there = permutation_test(gains)
    assert 0 < there <= 1
    assert permutation_test([-gain for gain in gains]) == there


@pytest.mark.parametrize(
    ("ps", "adjusted"),
    [
        # Ranked: .01 × 4, .02 × 3, .03 × 2, .04 × 1, each at least as large as the one before.
        ([0.04, 0.01, 0.03, 0.02], [0.06, 0.04, 0.06, 0.06]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.03], [0.03]),
        ([], []),
    ],
)
def test_holm_by_hand(ps, adjusted):
    assert holm_adjusted(ps) == near(adjusted)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_lies_between_the_plain_and_the_strictest(ps):
    adjusted = holm_adjusted(ps)
    for p, raised in zip(ps, adjusted, strict=True):
        assert p <= raised <= min(1.0, len(ps) * p) or raised == p
    ranked = [adjusted[at] for at in sorted(range(len(ps)), key=ps.__getitem__)]
    assert ranked == sorted(ranked)


@pytest.mark.parametrize(
    ("positive", "negative", "area"),
    [([3, 4], [1, 2], 1), ([1, 2], [3, 4], 0), ([1, 1], [1, 1], 1 / 2), ([2, 4], [1, 3], 3 / 4)],
)
def test_the_roc_area_is_the_share_of_pairs_in_the_right_order(positive, negative, area):
    assert roc_area(positive, negative).area == near(area)
    assert math.isnan(roc_area(positive, []).low)
    assert math.isnan(roc_area([], negative).area)


def test_the_interval_lies_around_the_area_and_narrows_with_more_cases():
    few, many = ([[index % 7 + shift for index in range(number)] for shift in (1, 0)] for number in (20, 200))
    small, large = roc_area(*few), roc_area(*many)
    assert small.low < small.area < small.high
    assert large.high - large.low < small.high - small.low
    assert roc_area(*few) == small, "the resamples are always the same"
