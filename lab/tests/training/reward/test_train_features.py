"""A logistic regression on features: what it learns from trees, and the folder that it writes."""

import json

import numpy as np
import pytest

from askance.configuration.build import load_models
from askance.core.errors import InputError, ModelFailure
from askance.core.trace import Trace
from askance.core.types import Hit, Passage
from askance.models.pair_scorer import CrossEncoder
from askance_lab.training.reward.feature_reward import read_feature_reward
from askance_lab.training.reward.train_features import FeatureSettings, logistic, train_features
from tests.evaluation.hand_made import record, written
from tests.models.tiny_cross_encoder import save_cross_encoder
from tests.tolerances import near

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


def test_gold_answers_are_no_feature(tmp_path):
    run = run_of(tmp_path / "run", [True, False] * 6)
    reward, _ = train_features({"run": run}, FeatureSettings(held_out=0.0), tmp_path / "reward")
    assert reward.held_out_auc is None
    assert "Too few questions" in (tmp_path / "reward" / "README.md").read_text()
    assert "Bonn" not in (tmp_path / "reward" / "features.json").read_text()


def test_labels_of_one_class(tmp_path):
    trace = Trace()
    for number in (1, 2):
        trace.expand(f"0.{number}", "da", "Bath", numbers={**VISITS, "reward": 0.5})
    run = written(tmp_path / "run", [record(1, golds=("Bonn",))], [trace])
    with pytest.raises(InputError, match="need steps that lead to right answers and steps that do not"):
        train_features({"run": run}, FeatureSettings(held_out=0.0), tmp_path / "reward")
    assert not (tmp_path / "reward").exists()


def test_a_cross_encoder_judges_the_evidence(tmp_path, monkeypatch):
    folder, seen = save_cross_encoder(tmp_path / "encoder"), []
    real = CrossEncoder.score_pairs

    async def noted(self, pairs):
        seen.extend(pairs)
        return await real(self, pairs)

    monkeypatch.setattr(CrossEncoder, "score_pairs", noted)
    trace = tree(True)
    other = Trace()
    for event in trace.events:
        text = event.text.replace("Where?", "When?") if event.node == "0.1.3" else event.text
        other.expand(event.node, event.action, text, numbers=event.numbers, passage=event.passage)
    run = written(tmp_path / "run", [record(1, golds=("Bonn",)), record(2, golds=("Bonn",))], [trace, other])
    settings = FeatureSettings(held_out=0.0)
    reward, _ = train_features({"run": run}, settings, tmp_path / "reward", cross_encoder=str(folder))
    assert sorted(seen)[0] == ("When?", "Bonn It has a bridge.")
    assert len(seen) == len(set(seen)) + 2, "each pair of a query and a passage once; passages differ by id"
    assert reward.cross_encoder == str(folder)
    monkeypatch.setattr(CrossEncoder, "_score", lambda self, pairs: 1 / 0)
    with pytest.raises((ModelFailure, ZeroDivisionError)):
        train_features({"run": run}, settings, tmp_path / "other", cross_encoder=str(folder))
    assert not (tmp_path / "other").exists(), "a failure writes nothing"


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
