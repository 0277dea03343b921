"""Rewards of paths by a regression on features: the file, the training and the search."""

import asyncio
import json

import numpy as np
import pytest

from askance.ask import Engine
from askance.configuration.build import load_models
from askance.core.errors import InputError, MissingAbility, ModelSpecError
from askance.core.ports import FeatureScorer
from askance.core.trace import Trace
from askance.core.types import Hit, Passage
from askance.evaluation.statistics.roc import logistic
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.reward import path_features
from askance.methods.airrag.state import PathState
from askance.models.loaders import load_cross_encoder
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.training.reward.feature_reward import FeatureReward, read_feature_reward
from askance_lab.training.reward.labelled_states import states_of_run
from askance_lab.training.reward.train_features import (
    FeatureSettings,
    _evidence,
    _features,
    train_features,
)
from tests.evaluation.hand_made import record, written
from tests.methods.bridge import MOUTH, PATHS_ALONE, QUESTION, WHERE, Varied, playing
from tests.methods.bridge import run as ask
from tests.models.tiny_cross_encoder import save_cross_encoder
from tests.tolerances import near

CONTENT = {
    "format": 1, "kind": "askance path reward", "intercept": -0.5,
    "features": [
        {"name": "refusals", "mean": 0.5, "scale": 0.5, "coefficient": -1.0},
        {"name": "retrieval_score", "mean": 2.0, "scale": 4.0, "coefficient": 2.0},
    ],
    "cross_encoder": None, "cross_encoder_fingerprint": "", "questions": 3, "steps": 9,
    "held_out_questions": 0, "held_out_steps": 0, "held_out_auc": None,
}  # fmt: skip


def saved(folder, **changed):
    file = folder / "features.json"
    file.write_text(json.dumps(CONTENT | changed))
    return file


def with_feature(**changed):
    return [CONTENT["features"][0] | changed, CONTENT["features"][1]]


def test_an_unknown_number_counts_as_the_mean(tmp_path):
    reward = read_feature_reward(saved(tmp_path))
    nothing = path_features("Why?", PathState(), None, {})
    assert nothing["retrieval_score"] is None
    assert reward.probability(nothing) == near(1 / (1 + 2.718281828459045**-0.5)), "no refusal, -0.5 + 1"
    assert reward.probability({**nothing, "refusals": 1e9}) == near(0.0)
    assert reward.probability({**nothing, "retrieval_score": 1e9}) == near(1.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": 0}, "format: Input should be 1, found 0"),
        ({"format": 2, "new": 1}, "format: Input should be 1, found 2"),
        ({"kind": "another"}, "kind"),
        ({"features": with_feature(name="gold")}, "unknown feature 'gold'; this version knows finished"),
        ({"features": with_feature(name="retrieval_score")}, "given more than once"),
        ({"features": with_feature(coefficient=float("nan"))}, r"features.0.coefficient: .*finite"),
        ({"features": with_feature(scale=0)}, r"features.0.scale: .*greater than 0"),
        ({"features": []}, "features"),
        ({"features": with_feature(name="evidence")}, "need each other"),
        ({"intercept": "x"}, "intercept"),
        ({"extra": 1}, "extra"),
    ],
)
def test_faulty_files(tmp_path, changed, message):
    with pytest.raises(InputError, match=message) as raised:
        read_feature_reward(saved(tmp_path, **changed))
    assert str(tmp_path) in str(raised.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(ModelSpecError, match="can't be read"):
        load_models({"reward": f"features:{tmp_path}"})
    (tmp_path / "features.json").write_text("{")
    with pytest.raises(ModelSpecError, match=r"features\.json: Invalid JSON"):
        load_models({"reward": f"features:{tmp_path}"})


def test_the_role_is_the_reward_alone(tmp_path):
    saved(tmp_path)
    (model,) = load_models({"reward": f"features:{tmp_path}"}).values()
    answering, retriever = ScriptedModel({}), ScriptedRetriever(())
    Engine(Airrag(verifier="rm"), {"answer": answering, "reward": model}, retriever)
    with pytest.raises(MissingAbility, match="in the role answer only judges numbers about a reasoning path"):
        Engine(Airrag(verifier="rm"), {"answer": model}, retriever)


def test_the_cross_encoder_is_the_one_of_the_training(tmp_path):
    folder = save_cross_encoder(tmp_path / "encoder")
    content = {"cross_encoder": str(folder), "features": with_feature(name="evidence")}
    fingerprint = load_cross_encoder(str(folder)).fingerprint
    saved(tmp_path, **content, cross_encoder_fingerprint=fingerprint)
    (model,) = load_models({"reward": f"features:{tmp_path}"}).values()
    assert model.evidence.fingerprint == fingerprint
    saved(tmp_path, **content, cross_encoder_fingerprint="0")
    with pytest.raises(ModelSpecError, match="trained with other weights of the cross-encoder"):
        load_models({"reward": f"features:{tmp_path}"})


def regression(name="jcd", **changed):
    feature = {"name": name, "mean": 0.0, "scale": 1.0, "coefficient": 1.0}
    return FeatureReward.model_validate(CONTENT | {"features": [feature]} | changed)


def remembering(seen, scorer=None, reward=None):
    """Return a reward model that adds the features of all paths that it judges to `seen`."""

    def probability(features):
        seen[tuple(features.items())] = None
        return (reward or regression()).probability(features)

    return FeatureScorer("features:test", "test", probability, scorer)


def known(features):
    return {name: value for name, value in features.items() if value is not None}


@pytest.mark.parametrize("search", ["tree", "paths"])
def test_a_regression_sees_in_the_search_what_it_learned_from_the_trace(search, tmp_path):
    scorer = load_cross_encoder(str(save_cross_encoder(tmp_path / "encoder")), device="cpu")
    seen = {}
    judge = remembering(seen, scorer)
    answers = playing(say=f"{WHERE}/{MOUTH}\n{MOUTH}", sa="the Delaware River\nMohawk", qt=f"{WHERE}\nNone")
    method = Airrag(
        rollouts=3,
        samples=2,
        answer_samples=2,
        verifier="rm_vote",
        actions=PATHS_ALONE,
        search=search,
    )
    asked = {"answer": Varied(answers), "reward": judge}
    result, _ = ask(method, asked)
    seen.clear()
    again, _ = ask(method, asked)
    asked_about = record(1, question=QUESTION.text, golds=("Mohawk",))
    run = written(tmp_path / "run", [asked_about], [result.trace])
    states = states_of_run("run", run, 99, 0)
    evidence = asyncio.run(_evidence(scorer, states))
    learned = [_features(each, evidence) for each in states]
    assert len(learned) > 2
    assert {each["finished"] for each in learned} == {0.0, 1.0}
    finished = [each for each in learned if each["finished"]]
    assert any(each["evidence"] is not None for each in learned)
    judged = [known(dict(each)) for each in seen]
    for features in finished:
        assert any(known(features) == near(each, "encoder", "float32") for each in judged), features
    assert again.answer.text == result.answer.text


VISITS = {"visits": 1.0, "value": 1.0}


def tree(is_right):
    """A question with three answers, of which the two that agree are right, or the lonely one."""
    trace = Trace()
    trace.expand("0.1", "say", "Where is it?", numbers=VISITS)
    for number, answer in enumerate(("Bonn", "Bonn", "Bath"), start=1):
        found = answer if is_right else "Bath" if answer == "Bonn" else "Bonn"
        hit = Hit(Passage(f"{number}", "Bonn", "It has a bridge."), 5.0 if found == "Bonn" else 1.0, 1)
        trace.expand(f"0.1.{number}", "ra", f"Where? → {found}", numbers=VISITS, passage=hit)
        trace.expand(f"0.1.{number}.1", "sa", found, numbers={**VISITS, "reward": 0.5})
    return trace


def run_of(folder, kinds):
    records = [record(number, golds=("Bonn",)) for number, _ in enumerate(kinds, start=1)]
    return written(folder, records, [tree(is_right) for is_right in kinds])


def test_newton_solves_the_regression():
    rng = np.random.default_rng(0)
    matrix = np.column_stack([np.ones(4000), rng.normal(size=(4000, 2))])
    wanted = np.array([-0.5, 1.0, -2.0])
    targets = 1 / (1 + np.exp(-(matrix @ wanted)))
    found = logistic(matrix, targets, np.ones(4000), 1e-6)
    assert found.tolist() == near(wanted.tolist(), "formula", "float32"), "the penalty is tiny"
    weighted = logistic(matrix, (targets > 0.5) * 1.0, np.full(4000, 0.5), 10.0)
    assert np.isfinite(weighted).all(), "classes that are separated, too"


def test_it_learns_which_paths_are_right(tmp_path):
    run = run_of(tmp_path / "run", [True, True, True, False] * 12)
    reward, result = train_features({"run": run}, FeatureSettings(held_out=0.4), tmp_path / "reward")
    coefficients = {each.name: each.coefficient for each in reward.features}
    assert coefficients["retrieval_score"] > 0, "right passages have greater scores here"
    assert "repeats" not in coefficients, "it is the same everywhere"
    assert "evidence" not in coefficients
    assert result.of_answers.area > 0.9
    assert result.by_consistency.area == near(0.5)
    assert read_feature_reward(tmp_path / "reward" / "features.json") == reward
    assert reward.held_out_auc == near(float(f"{result.area.area:.6g}"))
    card = (tmp_path / "reward" / "README.md").read_text()
    assert "| retrieval_score | mean score of the best passage" in card
    again, _ = train_features({"run": run}, FeatureSettings(held_out=0.4), tmp_path / "again")
    assert again == reward
    (loaded,) = load_models({"reward": f"features:{tmp_path / 'reward'}"}).values()
    assert loaded.evidence is None
    bare, _ = train_features({"run": run}, FeatureSettings(held_out=0.0), tmp_path / "bare")
    assert bare.held_out_auc is None
    assert "Too few questions" in (tmp_path / "bare" / "README.md").read_text()
    assert "Bonn" not in (tmp_path / "bare" / "features.json").read_text(), "gold answers are no feature"


def test_labels_of_one_class(tmp_path):
    trace = Trace()
    for number in (1, 2):
        trace.expand(f"0.{number}", "da", "Bath", numbers={**VISITS, "reward": 0.5})
    run = written(tmp_path / "run", [record(1, golds=("Bonn",))], [trace])
    with pytest.raises(InputError, match="need steps that lead to right answers and steps that do not"):
        train_features({"run": run}, FeatureSettings(held_out=0.0), tmp_path / "reward")
    assert not (tmp_path / "reward").exists()


def test_the_command(run, tmp_path):
    run_of(tmp_path / "run", [True, True, False, True] * 6)
    words = ["train", "reward", "--run", tmp_path / "run", "--kind", "features", "--set", "held_out=0.4"]
    code, shown, told = run(*words, "--out", tmp_path / "reward", "--dry-run")
    assert code == 0, told
    assert "steps to learn from" in shown
    assert not (tmp_path / "reward").exists()
    code, shown, told = run(*words, "--out", tmp_path / "reward")
    assert code == 0, told
    assert f"--model reward=features:{tmp_path / 'reward'}" in " ".join(shown.split()).replace(" ", " ")
    assert json.loads((tmp_path / "reward" / "features.json").read_text())["format"] == 1
    code, _, told = run(*words, "--out", tmp_path / "reward")
    assert code == 2
    assert "is there already" in told
    code, _, told = run(*words, "--out", tmp_path / "other", "--model", "bundled:base")
    assert code == 2
    assert "--model bundled:base: a regression on features starts from no model" in " ".join(told.split())
    code, _, told = run(*words, "--out", tmp_path / "other", "--set", "epochs=2")
    assert code == 2
    assert "epochs" in told
