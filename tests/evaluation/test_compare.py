"""Intervals, permutation tests and areas under curves, against results known by hand or by enumeration."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from askance.core.errors import InputError
from askance.evaluation.statistics import compare
from askance.evaluation.statistics.compare import (
    MOST_ENUMERATED,
    holm_adjusted,
    mean_interval,
    paired_difference,
    paired_test,
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


@pytest.mark.parametrize(
    ("scores", "low", "high"),
    [
        ([0.0], 0.0, 0.975),
        ([0.0] * 10, 0.0, 0.3085),
        ([1.0] * 4, 0.3976, 1.0),
        ([0.0, 1.0] * 5, 0.1871, 0.8129),
        ([1.0] + [0.0] * 99, 0.0003, 0.0545),
    ],
)
def test_scores_of_0_and_1_have_the_interval_of_clopper_and_pearson(scores, low, high):
    found = mean_interval(scores)
    assert (found.low, found.high) == near((low, high), "as told", "4 decimals")
    assert found.num_questions == len(scores)


@pytest.mark.parametrize("num", [1, 3, 20])
def test_equal_scores_have_an_interval(draws, num):
    """The end of the scale has the weight of one question: the least of `num` uniform numbers."""
    draws(40_000)
    found, end = mean_interval([0.4] * num), 0.025 ** (1 / num)
    assert (found.low, found.high) == near((0.4 * end, 1 - 0.6 * end), "share of 40,000", "draws")
    beyond = mean_interval([4.0] * num)
    assert beyond.low / 4 == near(end, "share of 40,000", "draws")
    assert beyond.high == near(4.0), "the greatest score ends a scale that 1 does not end"


def test_drawn_intervals_come_close_to_the_exact_one(draws):
    draws(40_000)
    exact = mean_interval([0.0, 0.0, 1.0])
    for scores in ([1e-9, 0.0, 1.0], np.repeat([1e-9, 0.0, 1.0], 1)):
        found = mean_interval(scores)
        assert (found.low, found.high) == near((exact.low, exact.high), "share of 40,000", "draws")


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
    found = mean_interval(np.linspace(0, 1, 1_200_000))
    assert found.low < found.high
    assert found.num_questions == 1_200_000
    assert permutation_test(np.linspace(1, 2, 1_100_000)) == 1 / 6


@given(PAIRS)
@settings(max_examples=40)
def test_exchanging_the_methods_mirrors_the_difference(pairs):
    first, second = (by_id(scores) for scores in zip(*pairs, strict=True))
    there, back = paired_difference(first, second), paired_difference(second, first)
    assert (there.mean, there.low, there.high) == near((-back.mean, -back.high, -back.low))
    assert paired_difference(dict(reversed(first.items())), second) == there, "the order does not matter"
    itself = paired_difference(first, first)
    assert (itself.mean, itself.high) == (0, near(-itself.low))


@given(SCORES)
@settings(max_examples=40)
def test_the_interval_stays_within_the_scale_and_has_the_mean_in_it(scores):
    found, slack = mean_interval(scores), tolerance("float64", "formula")
    assert 0 <= found.low <= found.mean + slack
    assert found.mean - slack <= found.high <= 1 + slack


WHOLE, HALVES = st.sampled_from([-1.0, 0.0, 1.0]), st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0])
GAINS = st.one_of(*(st.lists(each, min_size=1, max_size=30) for each in (WHOLE, HALVES, st.floats(-1, 1))))


@given(GAINS)
@example([0.0])
@example([1.0, 1.0])
@example([0.5] * 6)
@example([1.0] * 9 + [-1.0])
@example([0.1] * 17 + [0.2] * 3)
@settings(max_examples=150)
def test_the_interval_contains_0_exactly_if_p_is_at_least_5_percent(gains):
    first, second = ([max(0.0, sign * gain) for gain in gains] for sign in (1, -1))
    found, p = paired_test(by_id(first), by_id(second))
    slack = tolerance("float64", "formula")
    assert (found.low <= 0 <= found.high) == (p >= 0.05)
    assert p == permutation_test(gains)
    assert found.low - slack <= found.mean <= found.high + slack
    assert found.low < found.high, "no interval is without width"
    assert -1 - slack <= found.low < found.high <= 1 + slack


def differences(random, rates, num):
    """Draw differences that are +1, −1 and a fraction at these rates, and otherwise 0."""
    kinds = random.choice(4, size=num, p=[*rates, 1 - sum(rates)])
    return np.choose(kinds, [1.0, -1.0, random.uniform(-0.5, 1, num), 0.0])


@pytest.mark.parametrize("num", [6, 20, 60])
@pytest.mark.parametrize("rates", [(0.15, 0.1, 0.2), (0.04, 0.01, 0.02), (0.7, 0.05, 0.0), (0.1, 0.1, 0.0)])
def test_intervals_contain_the_true_value_as_often_as_they_say(draws, rates, num):
    draws(1000)
    random, repeats = np.random.default_rng(num), 200
    least = 0.95 - tolerance("draws", "coverage")
    true = rates[0] - rates[1] + 0.25 * rates[2]
    gains = [differences(random, rates, num) for _ in range(repeats)]
    paired = [paired_difference(by_id(each), by_id([0.0] * num)) for each in gains]
    assert np.mean([each.low <= true <= each.high for each in paired]) >= least
    means = [mean_interval((1 + each) / 2) for each in gains]
    assert np.mean([each.low <= (1 + true) / 2 <= each.high for each in means]) >= least


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
    assert permutation_test([0.5] * 14 + [-0.5] * 6) == near(exact)
    drawn = permutation_test([0.5] * 13 + [-0.5] * 6 + [0.5 + 1e-10])
    assert drawn == near(exact, "share of 40,000", "draws")
    gains = list(np.random.default_rng(3).normal(0.2, 0.5, MOST_ENUMERATED))
    drawn = permutation_test([*gains, 1e-12])  # one more than are enumerated, which hardly counts
    assert drawn == near(permutation_test(gains), "share of 40,000", "draws")


def test_a_drawn_p_is_never_zero_and_depends_on_the_seed_alone(draws, monkeypatch):
    draws(99)
    assert permutation_test([1.0, 2.0] * 100) == 0.01
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


def test_the_roc_area_of_many_questions_takes_no_memory_for_each_pair():
    tracemalloc.start()
    found = roc_area(np.arange(5000), np.arange(5000) - 0.5)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.area == near(0.5001)
    assert peak_bytes < 5000 * 5000 * 8


def test_the_interval_lies_around_the_area_and_narrows_with_more_cases():
    few, many = ([[index % 7 + shift for index in range(number)] for shift in (1, 0)] for number in (20, 200))
    small, large = roc_area(*few), roc_area(*many)
    assert small.low < small.area < small.high
    assert large.high - large.low < small.high - small.low
    assert roc_area(*few) == small, "the resamples are always the same"
