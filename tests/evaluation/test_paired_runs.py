import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.core.errors import InputError, UnknownName
from askance.core.safe_text import json_line
from askance.evaluation.statistics.paired_runs import compare_group
from askance.evaluation.statistics.run_groups import group_runs
from tests.evaluation.hand_made import record, run_of, scored
from tests.tolerances import near


def group_of(*runs):
    (group,) = group_runs(runs)
    return group


def group_scored(*rows, metric="f1"):
    return group_of(
        *(scored(row, metric, folder=f"runs/{at}", title=f"m{at}") for at, row in enumerate(rows))
    )


def test_a_difference_by_hand():
    """Gains −1, 1, 1, 0.5 and, rounding aside, 0: their sum is 1.5. Of the 16 choices of signs 2 have a sum
    of ±3.5, 2 of ±2.5, 6 of ±1.5 and 6 of ±0.5.
    """
    found = compare_group(group_scored([1.0, 0.0, 0.0, 0.5, 0.3], [0.0, 1.0, 1.0, 1.0, 0.1 + 0.2]))
    (only,) = found.differences
    assert (only.metric, only.run, only.base) == ("f1", "m1", "m0")
    assert only.difference.mean == near(0.3)
    assert only.difference.num_questions == 5
    assert only.difference.low < 0.3 < only.difference.high
    assert (only.won, only.lost, only.tied) == (3, 1, 1)
    assert only.p == only.p_holm == 10 / 16


def test_holm_is_over_the_comparisons_by_one_metric():
    nothing, better, best = [0.0] * 6, [1.0] * 5 + [0.0], [1.0] * 6
    found = compare_group(group_scored(nothing, better, best))
    assert [(each.run, each.p, each.p_holm) for each in found.differences] == [
        ("m1", 2 / 32, 2 / 32),
        ("m2", 2 / 64, 2 * 2 / 64),
    ]


def test_pairs():
    group = group_scored([0.0], [1.0], [0.5])

    def pairs(**choice):
        return [(each.run, each.base) for each in compare_group(group, **choice).differences]

    assert pairs() == [("m1", "m0"), ("m2", "m0")]
    assert pairs(base=1) == [("m0", "m1"), ("m2", "m1")]
    assert pairs(all_pairs=True) == [("m1", "m0"), ("m2", "m0"), ("m2", "m1")]


def test_a_run_alone_has_its_summary_only():
    found = compare_group(group_scored([1.0, 0.0]), num_questions=3)
    assert found.differences == ()
    assert found.summaries[0].metrics["f1"].mean == 0.5
    assert found.num_questions == 2


def test_metrics():
    scores = {"precision": 1.0, "exact_match": 0.0, "f1": 0.5}
    group = group_of(run_of([record(1, scores)], "runs/a"), run_of([record(1, scores)], "runs/b", title="b"))
    assert compare_group(group).metrics == ("f1", "exact_match")
    assert compare_group(group, metrics=["precision", "precision"]).metrics == ("precision",)
    with pytest.raises(UnknownName, match=r"'recal'.*jsonl:bridges.jsonl.*Known: exact_match, f1, precision"):
        compare_group(group, metrics=["recal"])


def test_only_metrics_of_all_runs_are_chosen():
    first = run_of([record(1, {"exact_match": 1.0, "f1": 1.0})], "runs/a")
    group = group_of(first, scored([1.0], "exact_match", folder="runs/b", title="b"))
    assert compare_group(group).metrics == ("exact_match",)
    group = group_of(first, scored([1.0], "precision", folder="runs/b", title="b"))
    assert compare_group(group).differences == ()


def test_questions_without_a_score_in_both_are_left_out():
    found = compare_group(group_scored([1.0, None, 0.0, 0.5], [None, 1.0, 1.0, 0.5]))
    (only,) = found.differences
    assert (only.difference.num_questions, only.won, only.tied) == (2, 1, 1)
    with pytest.raises(InputError, match="m1 and m0 have a score in f1 for no question in common"):
        compare_group(group_scored([1.0, None], [None, 1.0]))


def test_the_questions_that_differ_most():
    found = compare_group(group_scored([0.5, 1.0, 1.0, 0.0], [0.75, 1.0, 0.0, 0.9]), num_questions=2)
    assert [(each.id, each.run_score, each.base_score) for each in found.differences[0].questions] == [
        ("q3", 0.0, 1.0),
        ("q4", 0.9, 0.0),
    ]
    assert found.differences[0].questions[0].question == "Who built bridge 3?"
    assert '"p_holm"' in json_line(dataclasses.asdict(found))


@given(
    st.lists(st.tuples(st.sampled_from([0, 0.5, 1]), st.sampled_from([0, 0.5, 1])), min_size=1, max_size=8)
)
@settings(max_examples=20, deadline=None)
def test_exchanging_the_runs_mirrors_everything(pairs):
    group = group_scored([float(one) for one, _ in pairs], [float(two) for _, two in pairs])
    (there,), (back,) = (compare_group(group, base=base).differences for base in (0, 1))
    assert there.p == back.p
    assert (there.won, there.lost, there.tied) == (back.lost, back.won, back.tied)
    assert there.won + there.lost + there.tied == len(pairs)
    assert there.difference.mean == near(-back.difference.mean)
