"""Training data from recorded trees: the values of steps, and the rows of each format."""

import json

import pytest

from askance.core.errors import InputError
from askance.core.trace import Trace
from askance.core.types import Hit, Passage
from askance.evaluation.report.trees import TreeFormat, steps_of, tree_rows
from askance.methods.airrag.method import Airrag
from tests.evaluation.hand_made import record, written
from tests.methods.bridge import MOUTH, PATHS_ALONE, WHERE, Varied, playing
from tests.methods.bridge import run as ask
from tests.tolerances import near

PASSAGE = Hit(Passage("1", "Bonn", "It has a bridge."), 1.0, 1)
QUESTION = "Who built bridge 1?"
PLAN, OTHER = "Plan: Where is it?", "Found: Bath"
FOUND = "Passage: Bonn It has a bridge.\nFound: Where? → Bonn"


def tree(*ends, way_votes=(1, 1)):
    """Return the trace of two ways after a plan.

    Args:
        ends: The number of each end's way, its answer, and perhaps the number of its samples.
        way_votes: The number of samples of each way.
    """
    trace, visits = Trace(), {"visits": 1.0, "value": 1.0}
    trace.expand("0.1", "say", "Where is it?", numbers=visits)
    first, second = ({**visits, "votes": votes} for votes in way_votes)
    trace.expand("0.1.1", "ra", "Where? → Bonn", numbers=first, passage=PASSAGE)
    trace.expand("0.1.2", "ra", "Bath", numbers=second)
    for number, (way, answer, *votes) in enumerate(ends, start=1):
        rejected = "" if answer else "it says that there is no answer"
        numbers = {**visits, "reward": 0.5, "votes": votes[0] if votes else 1}
        trace.expand(f"0.1.{way}.{number}", "sa", answer, numbers=numbers, rejected=rejected)
    trace.expand("0.1", "retrieve", "a step of another search, without visits")
    return trace


def run_of(folder, *traces):
    return written(folder, [record(number) for number, _ in enumerate(traces, start=1)], traces)


def message(role, content):
    return [{"role": role, "content": content}]


def test_the_value_of_a_step_is_the_share_of_right_answers_below_it():
    steps = steps_of(tree((1, "Bonn"), (1, "in Bonn"), (1, ""), (2, "Bath"), (2, "Bonn")).events, ["Bonn"])
    assert [step.text for step in steps[:3]] == [PLAN, FOUND, OTHER]
    assert [step.num_samples for step in steps] == [4, 2, 2, 1, 1, 0, 1, 1], "a rejected one does not"
    assert [step.value for step in steps] == near([0.75, 1.0, 0.5, 1.0, 1.0, 0.0, 0.0, 1.0])
    assert [each.text for each in steps[-1].path] == [PLAN, OTHER, "Answer: Bonn"]


def test_a_value_counts_every_sample_of_an_answer():
    """Three right samples and a wrong one are 3/4, below their own step as well as two steps above."""
    steps = steps_of(tree((1, "Bonn", 3), (1, "Bath", 1)).events, ["Bonn"])
    assert [step.value for step in steps] == near([0.75, 0.75, 0.0, 1.0, 0.0])
    assert [step.num_samples for step in steps] == [4, 4, 0, 3, 1]
    steps = steps_of(tree((1, "Bonn", 4), (2, "Bath", 4), way_votes=(3, 1)).events, ["Bonn"])
    assert [step.value for step in steps] == near([0.75, 1.0, 0.0, 1.0, 0.0]), "three ways of four end well"
    thirds = tree((1, "Bonn", 1), (1, "Bath", 2), (2, "Bonn", 3), (2, "Bath", 1), way_votes=(2, 1))
    assert steps_of(thirds.events, ["Bonn"])[0].value == 0.5, "2/3 + 3/3 of twice as much, and no bit less"


def test_rows_of_each_format(tmp_path):
    run = run_of(tmp_path / "run", tree((1, "Bonn"), (2, "Bath")), tree((2, "Bath")))
    assert list(tree_rows(run, TreeFormat.SFT)) == [
        {
            "prompt": message("user", QUESTION),
            "completion": message("assistant", f"{PLAN}\n{FOUND}\nAnswer: Bonn"),
        }
    ]
    right, wrong, _ = tree_rows(run, TreeFormat.PROCESS)
    assert right["labels"] == [True] * 3
    assert wrong == {
        "prompt": QUESTION,
        "completions": [PLAN, OTHER, "Answer: Bath"],
        "labels": [True, False, False],
        "values": [0.5, 0.0, 0.0],
        "samples": [2, 1, 1],
    }
    with pytest.raises(InputError, match="give no row of the format preference: make more rollouts"):
        list(tree_rows(run, TreeFormat.PREFERENCE))
    ends = [(1, "Bonn"), (1, "Bonn"), (2, "Bath"), (2, "Bath")]
    assert list(tree_rows(run_of(tmp_path / "more", tree(*ends)), TreeFormat.PREFERENCE)) == [
        {
            "prompt": message("user", f"{QUESTION}\n{PLAN}"),
            "chosen": message("assistant", FOUND),
            "rejected": message("assistant", OTHER),
        }
    ]


def test_a_real_search(tmp_path):
    varied = Varied(playing(say=f"{WHERE}/{MOUTH}\n{WHERE}", sa="the Delaware River\nMohawk"))
    method = Airrag(rollouts=6, samples=2, answer_samples=2, actions=PATHS_ALONE)
    result, _ = ask(method, varied)
    made = written(tmp_path / "run", [record(1, golds=("Delaware River",))], [result.trace])
    rows = list(tree_rows(made, TreeFormat.PROCESS))
    assert len(rows) > 2
    for row in rows:
        assert row["completions"][0].startswith("Plan: ")
        assert row["labels"][-1] == row["completions"][-1].endswith("Delaware River")
        assert row["samples"] == sorted(row["samples"], reverse=True)


def test_the_command(run, tmp_path):
    run_of(tmp_path / "run", tree((1, "Bonn"), (2, "Bath")))
    written(tmp_path / "flat", [record(1)])
    steps = tmp_path / "steps.jsonl"
    assert run("export", "trees", tmp_path / "run", "--out", steps)[0] == 0
    labels = [json.loads(line)["labels"] for line in steps.read_text().splitlines()]
    assert labels == [[True] * 3, [True, False, False]]
    for given, message in (
        (["run", "--out", steps], "it exists already"),
        (["flat", "--out", tmp_path / "other"], "has no search trees: name a run of airrag"),
        (["run", "--format", "dpo", "--out", tmp_path / "other"], "'sft', 'preference', 'process'"),
    ):
        code, _, told = run("export", "trees", tmp_path / given[0], *given[1:])
        assert (code, message in " ".join(told.split())) == (2, True)
    assert not (tmp_path / "other").exists()
