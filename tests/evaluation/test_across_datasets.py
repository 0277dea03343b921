"""Averages of methods over datasets, and their stratified test."""

import pytest

from askance.evaluation.statistics.across_datasets import average_groups
from askance.evaluation.statistics.compare import paired_test
from askance.evaluation.statistics.run_groups import group_runs
from tests.evaluation.hand_made import scored
from tests.tolerances import near


def averages(base="a", **scores):
    """Average runs from their F1 scores by dataset, such as `nq={"a": [1.0], "b": [0.0]}`."""
    runs = [
        scored(values, folder=f"runs/{dataset}-{name}", title=name, dataset=f"{dataset}:dev.json")
        for dataset, by_name in scores.items()
        for name, values in by_name.items()
    ]
    groups = group_runs(runs)
    return average_groups(groups, [("f1",)] * len(groups), base)


def test_datasets_weigh_the_same_and_signs_are_flipped_within_them():
    """Gains of b: 1 in nq; 1, 1, −1 and 0 in arc, which weigh a quarter each. Half of ±1 ± 1/4 ± 1/4 ± 1/4 is
    as far from 0 as 5/8 in 8 of 16 assignments.
    """
    scores = {"nq": {"a": [0.0], "b": [1.0]}, "arc": {"a": [0.0, 0.0, 1.0, 0.0], "b": [1.0, 1.0, 0.0, 0.0]}}
    (((first, second)),) = averages(**scores)
    assert (first.run, first.means, first.average) == ("a", {"nq": 0.0, "arc": 0.25}, 0.125)
    assert (first.difference, first.p) == (None, None)
    assert (second.means, second.average, second.difference) == ({"nq": 1.0, "arc": 0.5}, 0.75, near(0.625))
    assert (second.p, second.p_holm, second.metrics) == (8 / 16, 8 / 16, {"nq": "f1", "arc": "f1"})


def test_holm_is_over_all_runs_and_a_run_that_lacks_a_dataset_has_no_average():
    zeros, ones = [0.0] * 4, [1.0] * 4
    of_both = {"a": zeros, "b": ones, "c": [1.0, 1.0, 1.0, 0.0]}
    ((*rows, partial),) = averages(nq=of_both, arc={**of_both, "d": ones})
    assert [(row.run, row.p, row.p_holm) for row in rows] == [
        ("a", None, None),
        ("b", 2 / 2**8, 4 / 2**8),
        ("c", 2 / 2**6, 2 / 2**6),
    ]
    assert (partial.run, partial.means, partial.average, partial.p) == ("d", {"arc": 1.0}, None, None)
    (by_d,) = averages(base="d", nq=of_both, arc={**of_both, "d": ones})
    assert [row.p for row in by_d] == [None] * 4, "a base without an average tests nothing"


def test_one_dataset_has_no_averages_and_equal_sizes_have_the_test_of_all_questions():
    assert averages(nq={"a": [1.0]}) == []
    scores = [[0.5, 0.25, 0.0], [0.0, 1.0, 0.25]]
    (found,) = averages(nq={"a": scores[0], "b": scores[1]}, arc={"a": scores[1], "b": [1.0] * 3})
    pooled = (dict(enumerate(first + second)) for first, second in ((scores[1], [1.0] * 3), scores))
    difference, p = paired_test(*pooled)
    assert (found[1].difference, found[1].p) == (near(difference.mean), p)


@pytest.mark.parametrize("metrics", [[("f1",), ("f1", "exact_match")], [("f1", "exact_match"), ("f1",)]])
def test_there_is_a_table_for_each_place_that_all_datasets_have_a_metric_for(metrics):
    runs = [scored([1.0], folder=f"runs/{name}", dataset=f"{name}:x") for name in ("nq", "arc")]
    assert len(average_groups(group_runs(runs), metrics, "single")) == 1
