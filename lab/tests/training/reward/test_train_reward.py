"""A reward model: which steps it learns, the prompt that it sees, and how it is trained and measured."""

import asyncio
from dataclasses import replace

import pytest

from askance.configuration.build import load_model
from askance.core.errors import InputError
from askance.core.types import Question
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.prompts import PromptBuilder
from askance.methods.airrag.reward import VERDICTS
from askance.methods.common.prompts import label_probabilities
from askance.middleware.session import prompt_text
from askance.models.scripted import ScriptedModel
from askance_lab.training.reader.train_reader import load_base
from askance_lab.training.reward.labelled_states import states_of_run
from askance_lab.training.reward.train_reward import RewardSettings, state_prompt, train_reward
from tests.evaluation.hand_made import record, written
from tests.evaluation.report.test_trees import tree
from tests.methods.bridge import MOUTH, PATHS_ALONE, QUESTION, WHERE, Varied, playing
from tests.methods.bridge import run as ask
from tests.tolerances import near

RIGHT_AND_WRONG = [(1, "Bonn"), (1, "Bonn"), (2, "Bath"), (2, "Bath")]


def settings(**changed):
    given = {"rank": 4, "max_tokens": 512, "rows_per_step": 2, "held_out": 0.3, "learning_rate": 0.02}
    return RewardSettings(**(given | {"precision": "float32"} | changed))


def run_of(folder, traces):
    records = [record(number, golds=("Bonn",)) for number, _ in enumerate(traces, start=1)]
    return written(folder, records, traces)


def test_the_steps_of_a_question_are_balanced_and_weighted(tmp_path):
    run = run_of(
        tmp_path / "run", [tree(*RIGHT_AND_WRONG), tree((1, "Bonn"), (1, "Bonn")), tree((2, "Bath"))]
    )
    states = states_of_run("run", run, 2, 0)
    by_question = {
        number: [(each.value, each.weight) for each in states if each.id == f"run/q{number}"]
        for number in (1, 2, 3)
    }
    assert sorted(value for value, _ in by_question[1])[:2] == [0.0, 0.0], "two of each kind"
    assert len(by_question[1]) == 4
    assert {weight for _, weight in by_question[1]} == {1.0}
    assert by_question[2] == [(1.0, 0.5)] * 2, "all answers are right"
    assert by_question[3] == [(0.0, 0.5)], "steps above a single answer are left out"
    assert states == states_of_run("run", run, 2, 0), "the seed decides"


def test_the_prompt_is_that_of_the_search(llama_folder, tmp_path):
    model = ScriptedModel(scores={"Yes": -1.0, "No": -1.0})
    varied = Varied(playing(say=f"{WHERE}/{MOUTH}", sa="the Delaware River"))
    method = Airrag(rollouts=1, verifier="rm", actions=PATHS_ALONE)
    result, _ = ask(method, {"answer": varied, "reward": model})
    (scored,) = {event.prompt for event in result.trace.events if event.type == "score"}
    made = run_of(tmp_path / "run", [result.trace])
    (state,) = [each for each in states_of_run("run", made, 4, 0) if each.step.is_end]
    tokenizer = load_base(f"hf:{llama_folder}", device="cpu").tokenizer
    built = state_prompt(replace(state, question=QUESTION.text), model, tokenizer)
    assert prompt_text(built, model) == scored


@pytest.mark.parametrize("name", ["llama_folder", "qwen_folder"])
def test_a_reward_model_learns_which_steps_lead_to_right_answers(name, request, tmp_path):
    folder, results = request.getfixturevalue(name), []
    run = run_of(tmp_path / "run", [tree(*RIGHT_AND_WRONG) for _ in range(24)])
    report = train_reward(
        {"run": run},
        load_base(f"hf:{folder}", device="cpu"),
        settings(epochs=6),
        tmp_path / "reward",
        on_end=results.append,
    )
    (result,) = results
    assert result.area.area > 0.9, "the same steps are right or wrong in all questions"
    assert result.by_consistency.area == near(0.5), "all ends have the same reward here"
    assert report.curve[-1].loss < report.curve[0].loss
    model = load_model(f"hf:{tmp_path / 'reward'}")
    builder = PromptBuilder(model, Question("q1", "Who built bridge 1?"))
    prompts = [
        builder.judge([("Plan", "Where is it?"), *middle, ("Answer", answer)])
        for middle, answer in (
            ([("Passage", "Bonn: It has a bridge."), ("Found", "Where? Bonn")], "Bonn"),
            ([("Found", "Bath")], "Bath"),
        )
    ]
    right, wrong = (asyncio.run(label_probabilities(model, prompt, VERDICTS))[0] for prompt in prompts)
    assert right > wrong
    card = (tmp_path / "reward" / "README.md").read_text()
    assert "| the reward | answers |" in card
    assert "verifier=rm_vote" in card


def test_runs_that_teach_nothing(tmp_path, llama_folder):
    wrong = run_of(tmp_path / "wrong", [tree((2, "Bath"), (2, "Bath"))] * 4)
    with pytest.raises(InputError, match="need steps that lead to right answers and steps that do not"):
        train_reward(
            {"run": wrong}, load_base(f"hf:{llama_folder}", device="cpu"), settings(), tmp_path / "reward"
        )
    assert not (tmp_path / "reward").exists()


def test_the_command(run, llama_folder, tmp_path):
    run_of(tmp_path / "run", [tree(*RIGHT_AND_WRONG) for _ in range(12)])
    words = ["train", "reward", "--run", tmp_path / "run", "--model", f"hf:{llama_folder}"]
    given = [word for name in ("rank=4", "max_tokens=512", "held_out=0.3") for word in ("--set", name)]
    code, shown, told = run(*words, *given, "--out", tmp_path / "reward", "--dry-run")
    assert code == 0, told
    assert "1 run" in shown
    assert not (tmp_path / "reward").exists()
    code, shown, told = run(*words, *given, "--out", tmp_path / "reward")
    assert code == 0, told
    assert "the reward during the search" in shown
    assert f"--model reward=hf:{tmp_path / 'reward'}" in " ".join(shown.split()).replace(" ", " ")
    code, _, told = run(*words, "--out", tmp_path / "reward")
    assert code == 2
    code, _, told = run("train", "reward", "--run", tmp_path / "absent", "--out", tmp_path / "other")
    assert (code, "absent" in told) == (2, True)
