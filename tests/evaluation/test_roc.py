"""The area under the ROC curve, on cases whose area is known."""

from math import isnan

from askance.evaluation.statistics.roc import roc_area
from tests.tolerances import near


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    assert roc_area([3, 4], [1, 2]).area == 1
    assert roc_area([1, 2], [3, 4]).area == 0
    assert roc_area([1, 1], [1, 1]).area == near(0.5, "formula", "float64")
    assert roc_area([2, 4], [1, 3]).area == near(3 / 4, "formula", "float64")


def test_the_interval_lies_around_the_area_and_narrows_with_more_cases():
    few, many = ([[index % 7 + shift for index in range(number)] for shift in (1, 0)] for number in (20, 200))
    small, large = roc_area(*few), roc_area(*many)
    assert small.low < small.area < small.high
    assert large.high - large.low < small.high - small.low
    assert roc_area(*few) == small, "the resamples are always the same"


def test_without_cases_of_a_kind_there_is_no_area():
    assert isnan(roc_area([], [1, 2]).area)
    assert isnan(roc_area([1], []).low)
