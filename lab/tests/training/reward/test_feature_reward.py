"""A reward model on features: the file is checked when it is read, and the role is the reward alone."""

import json

import pytest

from askance.ask import Engine
from askance.configuration.build import load_models
from askance.core.errors import InputError, MissingAbility, ModelSpecError
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.reward import JudgedPath, path_features
from askance.models.pair_scorer import load_cross_encoder
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.training.reward.feature_reward import read_feature_reward
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
    nothing = path_features(JudgedPath("Why?"))
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
    with pytest.raises(ModelSpecError, match="all of it"):
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
