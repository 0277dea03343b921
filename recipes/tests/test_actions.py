"""The gates of the recipe of AirRAG's actions."""

import pytest
from studies.tests.test_commands import called
from tests.evaluation.hand_made import record, written

from askance_lab.training.actions.acceptance import ActionResult
from recipes.actions.__main__ import SETTINGS, hops_table, plan_conditions, recall_gate


def run_of(folder, recalls):
    records = [
        record(number, scores={"supporting_recall": recall, "f1": recall / 2}, hops=2 * number)
        for number, recall in enumerate(recalls, start=1)
    ]
    return written(folder, records)


@pytest.mark.parametrize(
    ("none_share", "well_formed", "expected"),
    [
        (0.1, 0.98, [True, True]),
        (0.11, 1.0, [False, True]),
        (0.0, 0.97, [True, False]),
        (None, 1.0, [False, True]),
    ],
)
def test_the_gate_of_the_plans(none_share, well_formed, expected):
    result = ActionResult("say", 50, none_share, well_formed, 0.5, 0.5)
    assert list(plan_conditions("musique", result).values()) == expected


@pytest.mark.parametrize(
    ("taught", "untaught", "expected"),
    [
        ([1.0] * 8, [0.5] * 8, [True, True]),
        ([0.5] * 8, [0.0] * 8, [False, True]),
        ([1.0] * 8, [1.0] * 8, [True, False]),
    ],
)
def test_the_gate_of_the_recall(tmp_path, taught, untaught, expected):
    runs = run_of(tmp_path / "taught", taught), run_of(tmp_path / "untaught", untaught)
    assert list(recall_gate(*runs).values()) == expected


def test_the_table_by_hops(tmp_path):
    run = run_of(tmp_path / "run", [1.0, 0.5])
    lines = hops_table({"taught": run}).splitlines()
    assert lines[2:] == [
        "| 2 | 1 | taught | 0.500 | 1.000 |",
        "| 4 | 1 | taught | 0.250 | 0.500 |",
        "| all | 2 | taught | 0.375 | 0.750 |",
    ]


def test_questions_without_a_recall_do_not_lower_its_mean(tmp_path):
    scores = [{"supporting_recall": recall, "f1": 0.5} for recall in (None, 1.0)]
    run = written(tmp_path / "run", [record(number, scores=each) for number, each in enumerate(scores)])
    lines = hops_table({"taught": run}).splitlines()
    assert lines[2:] == ["| unknown | 2 | taught | 0.500 | 1.000 |", "| all | 2 | taught | 0.500 | 1.000 |"]


def test_the_recipe_teaches_mostly_plans():
    assert SETTINGS.say > SETTINGS.ra
    assert SETTINGS.none_share < 0.3


def test_bad_input_exits_with_2_and_writes_nothing(tmp_path):
    words = ["--train", "musique:absent.jsonl", "--questions", "musique:absent.jsonl", "--corpus", "absent"]
    told = called("recipes.actions", *words, "--out", tmp_path / "made")
    assert (told.returncode, told.stdout) == (2, "")
    assert "absent.jsonl" in told.stderr
    assert not list(tmp_path.iterdir())
