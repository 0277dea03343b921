"""Rewards of paths: their features, rewards by a sequence classifier, and after each step."""

import asyncio

import pytest

pytest.importorskip("torch")

import torch

from askance.configuration.build import load_models
from askance.core.errors import ModelFailure
from askance.core.types import Hit, Question
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.path_features import (
    FEATURES,
    AnswerSupport,
    JudgedPath,
    Retrieval,
    path_features,
    supports_of,
)
from askance.methods.airrag.reward import PathRewardModel
from askance.methods.airrag.state import PathState
from askance.models.pair_scorer import load_cross_encoder
from askance.models.scripted import ScriptedModel
from tests.methods.bridge import (
    BRIDGE,
    CREEK,
    PATHS_ALONE,
    QUESTION,
    WHERE,
    Varied,
    playing,
    scored,
)
from tests.methods.bridge import run as ask
from tests.models.tiny_cross_encoder import save_cross_encoder
from tests.tolerances import near


def test_the_support_of_answers():
    one, other, third = supports_of(["the Po", "Po", "Arno"], [1, 2, 1], [1.0, 0.5, 0.5])
    assert (one.equal_share, other.equal_share, third.equal_share) == near((0.8, 0.8, 0.2))
    assert (one.jcd, third.jcd) == near((0.75, 0.25))
    assert supports_of([], [], []) == []


def test_features_of_a_path():
    bridge, creek = Hit(BRIDGE, 2.0, 1), Hit(CREEK, 4.0, 1)
    retrievals = [
        Retrieval("Where?", "unknown", bridge, 1.0),
        Retrieval("Where does Crum Creek flow?", "Eddystone", creek),
    ]
    retrievals.append(Retrieval("Which?", "none", None))
    found = path_features(JudgedPath("Why?", retrievals, None, 1, 0.5))
    assert set(found) == set(FEATURES)
    assert (found["jcd"], found["path_share"]) == (None, 0.5)
    assert [found[name] for name in ("repeats", "retrievals", "refusals")] == [1.0, 3.0, 1.0]
    assert (found["retrieval_score"], found["evidence"]) == (3.0, 1.0)
    assert (found["named"], found["supported"]) == (0.5, 0.5), "of Crum Creek, both words"
    assert [found[name] for name in ("last_answer", "planned", "plan_coverage")] == [None] * 3


@pytest.mark.parametrize(
    ("plan", "planned", "coverage"), [("None", 1.0, 0.0), ("Where is Pisa?; What is near?", 2.0, 0.5)]
)
def test_features_of_a_plan_and_of_an_answer(plan, planned, coverage):
    support = AnswerSupport(1.0, 1.0, 1.0)
    steps = [Retrieval("Where is Pisa?", answer, None) for answer in ("Rome", "the Tuscany")]
    found = path_features(JudgedPath("Is Pisa old?", steps, plan, answer="Tuscany", support=support))
    assert (found["planned"], found["plan_coverage"]) == (planned, coverage)
    assert found["last_answer"] == 1.0
    assert (found["named"], found["supported"]) == (None, None)


def test_a_path_is_judged_once():
    asked = {
        "answer": ScriptedModel(playing(say=WHERE, qt="None")),
        "reward": ScriptedModel(scores={"Yes": -1.0, "No": -1.0}),
    }
    result, _ = ask(Airrag(verifier="rm", actions=PATHS_ALONE), asked)
    assert len(scored(result)) == 1


@pytest.fixture(scope="module", params=[1, 2])
def classifier(request, tmp_path_factory):
    return save_cross_encoder(tmp_path_factory.mktemp("classifier"), num_labels=request.param)


def test_a_sequence_classifier_gives_rewards_with_a_tokenizer_of_its_own(classifier):
    spec = f"cross-encoder:{classifier}?device=cpu"
    asked = {
        "answer": Varied(playing(say=WHERE, sa="Mohawk\nthe Po", qt="None")),
        **load_models({"reward": spec}),
    }
    method = Airrag(verifier="rm", answer_samples=2, actions=PATHS_ALONE)
    result, _ = ask(method, asked, question=Question("q", "Which river?"))
    assert scored(result)
    (choice,) = [each for each in result.trace.decisions if each.name == "choose"]
    assert all(0 < number < 1 for number in choice.numbers.values())
    assert len({*choice.numbers.values()}) > 1, "the answers are read"


def test_the_end_of_a_long_path_is_read(classifier):
    scorer = load_cross_encoder(str(classifier), device="cpu")
    state = PathState(pending=(WHERE,))
    for number in range(5):
        state = state.with_answer(f"What is {number} of many words?", "Crum Creek", ())
    _, text = pair = PathRewardModel(scorer, QUESTION).pair(scorer, state.with_final_answer("sa", "the Po"))
    assert scorer.count_tokens(*pair) < scorer.max_tokens
    assert text.endswith("Answer: the Po")
    assert not text.startswith("Found: What is 0")


def test_the_two_labels_of_a_classifier_give_the_log_odds_of_the_second(tmp_path):
    folder = save_cross_encoder(tmp_path / "two", num_labels=2)
    scorer = load_cross_encoder(str(folder), device="cpu")
    module = scorer._module
    logits = module.predict([("a", "b")], activation_fn=torch.nn.Identity())[0]
    assert asyncio.run(scorer.score_pairs([("a", "b")])) == near([float(logits[1] - logits[0])])


def test_scores_that_are_no_numbers_are_refused(tmp_path, monkeypatch):
    scorer = load_cross_encoder(str(save_cross_encoder(tmp_path / "encoder")), device="cpu")
    monkeypatch.setattr(scorer, "_logits", lambda pairs: [float("nan")] * len(pairs))
    with pytest.raises(ModelFailure, match="the score nan, which is no finite number"):
        asyncio.run(scorer.score("Which river?", [CREEK]))
