"""The mix of rows, the training, and its measurements."""

import asyncio
import json
from dataclasses import replace
from math import floor

import pytest
from lab.tests.training.actions.chains import CHAINS, COMPARISONS, chain
from lab.tests.training.actions.test_action_rows import ROWS, SAY, written
from lab.tests.training.reader.sample_examples import FILM, NO_TOWER, TOWER

from askance.core.errors import InputError
from askance.models.scripted import Reply, ScriptedModel
from askance_lab.training.actions.acceptance import measure
from askance_lab.training.actions.settings import ActionSettings
from askance_lab.training.actions.train_actions import action_mix, train_actions
from askance_lab.training.reader.train_reader import load_base
from tests.tolerances import near


def settings(**changed):
    given = {"rank": 4, "max_tokens": 512, "rows_per_step": 2, "held_out": 0.2, "learning_rate": 0.02}
    return ActionSettings(**(given | {"precision": "float32", "ra": 0.2, "measured": 4} | changed))


def mix(**changed):
    return action_mix({"musique": CHAINS, "strategyqa": COMPARISONS}, {}, settings(**changed))


@pytest.mark.parametrize("none_share", [0.0, 0.2, 0.5])
def test_none_is_at_most_its_share_of_the_targets(none_share):
    towers = [replace(TOWER, question=replace(TOWER.question, id=f"{number}")) for number in range(40)]
    made = action_mix({"musique": CHAINS, "squad2": towers}, {}, settings(none_share=none_share, held_out=0))
    for action in ("say", "qt"):
        assert made.none_share(action) <= none_share
    plans = [row.is_none for row in made.training if row.action == "say"]
    assert sum(plans) == floor(plans.count(False) * none_share / (1 - none_share)), "and not far below"
    assert made.left_out["squad2", f"None as a target beyond none_share={none_share:g}"] >= 28


def test_no_question_is_both_learned_and_held_out():
    made = mix()
    learned, kept = ({row.id for row in rows} for rows in (made.training, made.held_out))
    assert kept
    assert not learned & kept
    assert made == mix()
    assert made.training != mix(seed=1).training


def test_data_without_plans_are_refused_with_the_remedy():
    bare = {"squad2": (TOWER, NO_TOWER)}
    with pytest.raises(InputError, match="no row teaches SAY to write a query") as caught:
        action_mix(bare, {}, settings(held_out=0))
    assert "or leave the action out with --set say=0" in str(caught.value)
    made = action_mix(bare, {}, settings(held_out=0, say=0, qt=0, ra=1))
    assert {row.action for row in made.training} <= {"ra", "sa", "da"}


def held_out_rows():
    given = action_mix({"musique": (FILM, chain(1))}, {}, settings(held_out=0, none_share=0.0, sa=1.0))
    return [row for row in given.training if row.action in ("say", "sa")]


@pytest.mark.parametrize(
    ("reply", "none_share", "well_formed"),
    [("None", 1.0, 1.0), ("Who directed it?\nWhen was he born?", 0.0, 1.0), ("Let me think.", 1.0, 0.0)],
)
def test_plans_are_measured(reply, none_share, well_formed):
    rows = [row for row in held_out_rows() if row.action == "say"]
    (result,) = asyncio.run(measure(ScriptedModel(lambda prompt, key: Reply(reply)), rows))
    assert (result.action, result.num_rows) == ("say", len(rows))
    assert (result.none_share, result.well_formed) == (near(none_share), near(well_formed))


def test_answers_are_measured_and_rows_beyond_the_window_are_left_out():
    rows = [row for row in held_out_rows() if row.action == "sa"]
    model = ScriptedModel(lambda prompt, key: Reply("The answer is River 1."))
    (result,) = asyncio.run(measure(model, rows))
    assert result.none_share is None
    assert result.exact_match == near(0.5), "right for one of two questions"
    assert result.shown[:4] == ("sa", "2", "", "100.0%")
    assert asyncio.run(measure(ScriptedModel(["x"], context_tokens=64), rows)) == ()


@pytest.mark.parametrize("name", ["llama_folder", "qwen_folder"])
def test_a_model_learns_to_plan(name, request, tmp_path):
    folder, out, results = request.getfixturevalue(name), tmp_path / "actions", []
    base = load_base(f"hf:{folder}", device="cpu")
    report = train_actions(mix(), base, settings(epochs=2), out, on_end=results.append)
    assert report.curve[-1].loss < report.curve[0].loss
    assert {"say", "qt"} <= report.held_out.keys()
    (found,) = results
    assert {result.action for result in found} <= {"say", "qt", "ra", "sa", "da"}
    assert all(result.num_rows <= 4 for result in found)
    card = (out / "README.md").read_text()
    assert "| qt | rewriting |" in card
    assert "| action | held out | None where a query is needed | well-formed | exact match | F1 |" in card
    assert "of the targets of SAY" in card
    assert "--method airrag --model hf:THIS_FOLDER" in card


def test_the_command(run, llama_folder, tmp_path):
    rows = written(tmp_path / "mine.jsonl", [SAY, *ROWS] * 6)
    words = ["train", "actions", "--rows", rows, "--model", f"hf:{llama_folder}", "--set", "held_out=0"]
    given = [*words, "--set", "rank=4", "--set", "max_tokens=512", "--out", tmp_path / "actions"]
    code, shown, told = run(*given, "--dry-run")
    assert code == 0, told
    assert "None as a target: 0.0% of say, 0.0% of qt" in shown
    assert "kind of reply" in shown
    assert not (tmp_path / "actions").exists()
    code, shown, told = run(*given)
    assert code == 0, told
    assert f"use it: --method airrag --model hf:{tmp_path / 'actions'}" in " ".join(shown.split())


def test_bad_input_exits_with_2_and_writes_nothing(run, llama_folder, tmp_path):
    broken = written(tmp_path / "broken.jsonl", [SAY, {**SAY, "reply": "I would say that it is easy."}])
    bare = tmp_path / "bare.jsonl"
    bare.write_text(json.dumps({"question": "Who?", "answers": ["Ada"]}))
    words = ["train", "actions", "--model", f"hf:{llama_folder}", "--out", tmp_path / "made"]
    for given, expected in (
        ([], "give --dataset NAME:FILE or --rows FILE"),
        (["--rows", broken], "line 2"),
        (["--rows", tmp_path / "absent.jsonl"], "absent.jsonl"),
        (["--dataset", f"jsonl:{bare}"], "1 of jsonl: no decomposition"),
        (["--dataset", f"jsonl:{bare}", "--set", "nones=1"], "nones"),
    ):
        code, shown, told = run(*words, *given)
        assert (code, shown) == (2, ""), given
        assert expected in " ".join(told.split())
    assert not (tmp_path / "made").exists()
