import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.core.errors import InputError
from askance.evaluation.statistics import compare
from askance.evaluation.statistics.compare import mean_interval, paired_difference
from tests.tolerances import near, tolerance

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def by_id(values):
    return {f"q{number}": value for number, value in enumerate(values)}


def test_a_mean_against_all_possible_resamples(monkeypatch):
    """Three questions have 27 resamples; their means are known, and how often each is drawn."""
    scores = [0.0, 0.5, 1.0]
    means = sorted(sum(drawn) / 3 for drawn in itertools.product(scores, repeat=3))
    monkeypatch.setattr(compare, "_RESAMPLES", 40_000)
    monkeypatch.setattr(compare, "CONFIDENCE", 0.8)
    found = mean_interval(scores)
    assert found.mean == near(0.5)
    assert found.low == near(means[2])  # the 10th percentile of 27 values: 1/6
    assert found.high == near(means[-3])
    assert (found.num_questions, found.confidence) == (3, 0.8)


def test_an_interval_of_many_questions_is_close_to_the_normal_one():
    scores = [float(number % 4 == 0) for number in range(400)]
    found = mean_interval(scores)
    half = 1.96 * math.sqrt(0.25 * 0.75 / 400)
    assert found.low == near(0.25 - half, "interval of 400", "draws")
    assert found.high == near(0.25 + half, "interval of 400", "draws")


def test_pairing_narrows_the_interval():
    random = np.random.default_rng(5)
    second = random.random(100)
    first = second + 0.1 + 0.01 * random.standard_normal(100)
    found = paired_difference(by_id(first), by_id(second))
    assert found.mean == near(0.1, "mean of 100", "draws")
    assert found.high - found.low < 0.01
    apart = mean_interval(first)
    assert apart.high - apart.low > 0.05


def test_the_order_does_not_matter():
    first, second = by_id([0.1, 0.9, 0.4, 0.7]), by_id([0.2, 0.3, 0.4, 0.1])
    shuffled = dict(reversed(first.items()))
    assert paired_difference(first, second) == paired_difference(shuffled, second)


def test_blocks_cover_every_resample(monkeypatch):
    """More questions than are drawn at once, so that each resample is a block of its own."""
    monkeypatch.setattr(compare, "_RESAMPLES", 5)
    found = mean_interval(np.tile([0.0, 1.0], 600_000))
    assert found.low < found.mean == 0.5 < found.high
    assert found.num_questions == 1_200_000


@given(SCORES)
@settings(max_examples=40)
def test_a_method_against_itself(scores):
    found = paired_difference(by_id(scores), by_id(scores))
    assert (found.mean, found.low, found.high) == (0, 0, 0)


@given(SCORES)
@settings(max_examples=40)
def test_the_interval_stays_within_the_scores(scores):
    found = mean_interval(scores)
    slack = tolerance("float64", "formula")
    assert min(scores) - slack <= found.low <= found.high <= max(scores) + slack


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
@settings(max_examples=40)
def test_exchanging_the_methods_mirrors_the_difference(pairs):
    first, second = by_id([one for one, _ in pairs]), by_id([two for _, two in pairs])
    there, back = (
        paired_difference(first, second),
        paired_difference(second, first),
    )
    assert there.mean == near(-back.mean)
    assert (there.low, there.high) == near((-back.high, -back.low))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scores": []}, "no scores"),
        ({"scores": [1.0, math.nan]}, "score 2 of 2 is nan"),
        ({"scores": [math.inf]}, "score 1 of 1 is inf"),
    ],
)
def test_scores_that_give_no_interval(settings, message):
    with pytest.raises(InputError, match=message):
        mean_interval(**settings)


def test_questions_without_a_pair():
    with pytest.raises(InputError, match="2 questions have a score of one method only, such as 'a'"):
        paired_difference({"a": 1.0, "b": 1.0}, {"b": 1.0, "c": 0.0})
