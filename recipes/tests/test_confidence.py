"""The recipe of the calibration: what is fitted to evidence that is known."""

import tomllib
from dataclasses import replace

import pytest
from lab.tests.training.relevance.test_pairs import example

from askance.confidence import AnswerEvidence, ConfidenceModel
from askance.core.errors import InputError
from recipes.confidence import Case, drawn, fit, measure, toml


def case(situation, logit, article="Pisa"):
    return Case(article, situation, AnswerEvidence(logit, 0.5 + logit / 20))


CASES = [
    *(case("answerable", logit / 10) for logit in range(40)),
    *(case("absent", -logit / 10) for logit in range(1, 40)),
    *(case("misleading", logit / 10 - 2) for logit in range(40)),
]


def test_supported_questions_get_more_confidence_and_the_threshold_keeps_95_percent_of_them():
    calibration = fit(CASES)
    found = measure(CASES, calibration)
    assert all(weight > 0 for weight in calibration.coefficients.values())
    assert found.absent.area.area == 1.0
    assert 0.5 < found.misleading.area.area < 1.0
    assert 0.9 <= found.answered.mean <= 1.0
    assert found.absent.refused_at_95.mean > 0.9
    assert 0 <= found.calibration_error < 0.5


def test_the_file_holds_the_calibration():
    calibration = fit(CASES)
    assert ConfidenceModel(**tomllib.loads(toml(calibration))) == calibration


def test_without_a_situation_nothing_can_be_fitted():
    with pytest.raises(InputError, match="'misleading': 0"):
        fit([each for each in CASES if each.situation != "misleading"])


def test_each_article_and_kind_gives_as_many_questions_as_are_asked_for():
    corpus = [example(number, title=f"Animals {number % 2}") for number in range(10)]
    chosen = drawn(corpus, 2, 2)
    assert len(chosen) == 4
    assert chosen == drawn(corpus, 2, 2), "drawing is reproducible"
    assert len(drawn(corpus, 50, 1)) == 10
    articles = [replace(each, supporting_titles=("Warsaw",)) for each in corpus]
    assert len(drawn(articles, 50, 1)) == 1, "an article that is held out"
