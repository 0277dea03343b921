"""Rewards of paths by a regression on their features, in the search and in training."""

import asyncio

import pytest
from lab.tests.training.reward.test_feature_reward import CONTENT

from askance.core.ports import FeatureScorer
from askance.methods.airrag.method import Airrag
from askance.models.pair_scorer import load_cross_encoder
from askance_lab.training.reward.feature_reward import FeatureReward
from askance_lab.training.reward.labelled_states import states_of_run
from askance_lab.training.reward.train_features import _evidence, _features
from tests.evaluation.hand_made import record, written
from tests.methods.bridge import MOUTH, PATHS_ALONE, QUESTION, WHERE, Varied, playing, scored
from tests.methods.bridge import run as ask
from tests.models.tiny_cross_encoder import save_cross_encoder
from tests.tolerances import near


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


def test_a_regression_steers_the_search():
    asked = {"answer": Varied(playing(say=WHERE, sa="Mohawk\nthe Po")), "reward": remembering({})}
    method = Airrag(rollouts=3, answer_samples=2, verifier="rm", reward="rm", wave=1)
    result, _ = ask(method, asked)
    assert result.answer.text
    assert not scored(result), "numbers need no call"
