"""Comparisons of runs question by question."""

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.core.errors import InputError, UnknownName
from askance.core.safe_text import json_line
from askance.evaluation.statistics.paired_runs import compare_group
from askance.evaluation.statistics.run_groups import group_runs
from tests.evaluation.hand_made import record, run_of, scored
from tests.tolerances import near


def group_scored(*rows):
    """Return a group of runs m0, m1 and so on with these F1 scores; a dict has all scores of one question."""
    runs = [
        run_of([record(1, row)], f"runs/{at}", title=f"m{at}")
        if isinstance(row, dict)
        else scored(row, folder=f"runs/{at}", title=f"m{at}")
        for at, row in enumerate(rows)
    ]
    (group,) = group_runs(runs)
    return group


def test_a_difference_by_hand():
    """Gains −1, 1, 1, 0.5 and, rounding aside, 0: their sum is 1.5. Of the 16 choices of signs 2 have a sum
    of ±3.5, 2 of ±2.5, 6 of ±1.5 and 6 of ±0.5.
    """
    found = compare_group(group_scored([1.0, 0.0, 0.0, 0.5, 0.3], [0.0, 1.0, 1.0, 1.0, 0.1 + 0.2]))
    (only,) = found.differences
    assert (only.metric, only.run, only.base, only.won, only.lost, only.tied) == ("f1", "m1", "m0", 3, 1, 1)
    assert (only.difference.mean, only.difference.num_questions) == (near(0.3), 5)
    assert only.difference.low < 0.3 < only.difference.high
    assert only.p == only.p_holm == 10 / 16


def test_holm_is_over_the_comparisons_by_one_metric():
    found = compare_group(group_scored([0.0] * 6, [1.0] * 5 + [0.0], [1.0] * 6))
    assert [(each.run, each.p, each.p_holm) for each in found.differences] == [
        ("m1", 2 / 32, 2 / 32),
        ("m2", 2 / 64, 2 * 2 / 64),
    ]


@pytest.mark.parametrize(
    ("choice", "pairs"),
    [
        ({}, [(3, 0), (4, 1)]),
        ({"base": 4}, [(0, 3), (1, 4), (2, 4)]),
        ({"all_pairs": True}, [(3, 0), (4, 0), (3, 1), (4, 1), (3, 2), (4, 2)]),
    ],
)
def test_seeds_of_a_method_are_averaged_and_not_tested_against_each_other(choice, pairs):
    seeds = [("m", 0, 0.2), ("m", 1, 0.4), ("m", 2, 0.9), ("n", 0, 1.0), ("n", 1, 1.0), ("o", 0, 0.5)]
    runs = [
        scored([score], folder=f"runs/{at}", title=name, seed=seed)
        for at, (name, seed, score) in enumerate(seeds)
    ]
    (group,) = group_runs(runs[:5])
    found = compare_group(group, **choice)
    names = ("m, seed=0", "m, seed=1", "m, seed=2", "n, seed=0", "n, seed=1")
    assert found.names == names
    assert [(each.run, each.base) for each in found.differences] == [
        (names[run], names[base]) for run, base in pairs
    ]
    of_m, of_n = found.over_seeds
    assert (of_m.name, of_m.seeds, of_m.means) == ("m", (0, 1, 2), {"f1": near((0.5, 0.13**0.5))})
    assert (of_n.name, of_n.seeds, of_n.means) == ("n", (0, 1), {"f1": (1.0, 0.0)})
    (group,) = group_runs([runs[0], replace(runs[0], folder=Path("again")), runs[5]])
    found = compare_group(group)
    assert (len(found.differences), found.over_seeds) == (2, ())


@pytest.mark.parametrize(
    ("choice", "pairs"),
    [
        ({}, [("m1", "m0"), ("m2", "m0")]),
        ({"base": 1}, [("m0", "m1"), ("m2", "m1")]),
        ({"all_pairs": True}, [("m1", "m0"), ("m2", "m0"), ("m2", "m1")]),
    ],
)
def test_pairs(choice, pairs):
    found = compare_group(group_scored([0.0], [1.0], [0.5]), **choice)
    assert [(each.run, each.base) for each in found.differences] == pairs


def test_a_run_alone_has_its_summary_only():
    found = compare_group(group_scored([1.0, 0.0]), num_questions=3)
    assert (found.differences, found.summaries[0].metrics["f1"].mean, found.num_questions) == ((), 0.5, 2)


def test_only_metrics_of_all_runs_are_chosen():
    all_three = {"precision": 1.0, "exact_match": 0.0, "f1": 0.5}
    group = group_scored(all_three, all_three)
    assert compare_group(group).metrics == ("f1", "exact_match")
    assert compare_group(group, metrics=["precision", "precision"]).metrics == ("precision",)
    with pytest.raises(UnknownName, match=r"'recal'.*over bridges.jsonl.*Known: exact_match, f1, precision"):
        compare_group(group, metrics=["recal"])
    two = {"exact_match": 1.0, "f1": 1.0}
    assert compare_group(group_scored(two, {"exact_match": 1.0})).metrics == ("exact_match",)
    assert compare_group(group_scored(two, {"precision": 1.0})).differences == ()


def test_questions_without_a_score_in_both_are_left_out():
    (only,) = compare_group(group_scored([1.0, None, 0.0, 0.5], [None, 1.0, 1.0, 0.5])).differences
    assert (only.difference.num_questions, only.won, only.tied) == (2, 1, 1)
    with pytest.raises(InputError, match="m1 and m0 have a score in f1 for no question in common"):
        compare_group(group_scored([1.0, None], [None, 1.0]))


def test_the_questions_that_differ_most():
    found = compare_group(group_scored([0.5, 1.0, 1.0, 0.0], [0.75, 1.0, 0.0, 0.9]), num_questions=2)
    first, second = found.differences[0].questions
    assert (first.id, first.question, first.run_score, first.base_score) == (
        "q3",
        "Who built bridge 3?",
        0.0,
        1.0,
    )
    assert (second.id, second.run_score, second.base_score) == ("q4", 0.9, 0.0)
    assert '"p_holm"' in json_line(dataclasses.asdict(found))


HALVES = st.sampled_from([0.0, 0.5, 1.0])


@given(st.lists(st.tuples(HALVES, HALVES), min_size=1, max_size=8))
@settings(max_examples=20, deadline=None)
def test_exchanging_the_runs_mirrors_everything(pairs):
    group = group_scored(*map(list, zip(*pairs, strict=True)))
    (there,), (back,) = (compare_group(group, base=base).differences for base in (0, 1))
    assert (there.p, there.won, there.lost, there.tied) == (back.p, back.lost, back.won, back.tied)
    assert there.won + there.lost + there.tied == len(pairs)
    assert there.difference.mean == near(-back.difference.mean)
