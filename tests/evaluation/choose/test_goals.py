"""The curve of searches over the values of a parameter, and the value for a wanted number of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.evaluation.choose.goals import monotone, resampled_means, value_at
from askance.evaluation.statistics.compare import percentile_interval
from tests.tolerances import near

MEANS = st.lists(st.floats(0, 10), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([1, 3, 2], [1, 2.5, 2.5]),
        ([3, 2, 1], [2, 2, 2]),
        ([0, 4, 2, 3], [0, 3, 3, 3]),
    ],
)
def test_values_out_of_order_are_averaged(means, expected):
    assert monotone(means) == expected


@given(MEANS, st.floats(-1, 11))
def test_a_monotone_curve_never_falls_and_keeps_the_sum_and_the_range(means, wanted):
    ordered = monotone(means)
    assert all(a <= b for a, b in pairwise(ordered))
    assert sum(ordered) == near(sum(means))
    values = [float(at) for at in range(len(means))]
    assert values[0] <= value_at(wanted, values, means) <= values[-1]


@pytest.mark.parametrize(
    ("wanted", "values", "means", "expected"),
    [
        (2, [0.2, 0.4], [1, 3], 0.3),  # between two values
        (2, [0.4, 0.2], [1, 3], 0.3),  # of a falling curve
        (1.5, [0, 1, 2], [1, 1, 2], 1.5),  # beside a plateau
        (1, [0.2, 0.4, 0.8], [1, 1, 2], 0.3),  # on a plateau
        (2, [5, 1], [0, 2], 1),  # at the end
        (9, [5, 1], [0, 2], 1),  # above
        (-1, [5, 1], [0, 2], 5),  # below
        (2, [5, 3, 2, 1], [0, 3, 1, 4], 2.5),  # in disorder
    ],
)
def test_the_value_for_a_wanted_number(wanted, values, means, expected):
    assert value_at(wanted, values, means) == near(expected)


def test_resampling_draws_the_same_questions_for_every_value():
    counts = np.array([[0.0, 1, 2, 3], [1.0, 2, 3, 4]])
    means = resampled_means(counts, seed=1)
    assert means[1] - means[0] == near(1)
    assert (resampled_means(counts, seed=1) == means).all()
    assert not (resampled_means(counts, seed=2) == means).all()
    low, high = percentile_interval(means[0])
    # The mean of 4 draws from 0 to 3 has standard deviation 0.56.
    assert 0.25 <= low <= 0.75
    assert 2.25 <= high <= 2.75
