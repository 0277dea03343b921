"""What the confidence of answers is worth: risk, coverage, and areas under curves."""

import pytest

from askance.configuration.evaluation import open_metrics
from askance.core.answers import Answer
from askance.core.trace import Trace
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.run.record import make_record
from askance.evaluation.statistics.selective import selective_summary
from askance.evaluation.statistics.summaries import summarise
from tests.evaluation.hand_made import record, run_of
from tests.tolerances import near

ABSTAINED = Answer("So the answer is Bonn.", "Bonn", confidence=0.1, abstained="no passage supports it")


def asked(number, score, confidence, **fields):
    return record(number, {"f1": score}, confidence=confidence, **fields)


def test_answers_sorted_by_confidence_have_no_risk_until_the_wrong_ones():
    records = [asked(1, 1.0, 0.9), asked(2, 0.0, 0.2), asked(3, 1.0, 0.8), asked(4, 0.0, 0.1)]
    found = selective_summary(records, "f1")
    assert found.aurc.mean == near((0 + 0 + 1 / 3 + 1 / 2) / 4)
    assert found.aurc.low <= found.aurc.mean <= found.aurc.high
    assert [point.risk for point in found.curve if point.coverage == 0.5] == [0.0]
    assert (found.curve[-1].coverage, found.curve[-1].risk) == (1.0, 0.5)
    assert found.auroc_right.area == 1.0
    assert (found.auroc_answerable, found.unanswerable_refused) == (None, None)


def test_equal_confidences_are_in_no_order():
    found = selective_summary([asked(1, 1.0, 0.5), asked(2, 0.0, 0.5)], "f1")
    assert [point.risk for point in found.curve] == near([0.5] * len(found.curve))


def test_unanswerable_questions_count_as_lost_if_they_are_answered():
    refused = {"golds": ("noanswer",), "abstained": "no passage", "scores_if_answered": {"f1": 0.0}}
    records = [asked(1, 1.0, 0.9), asked(2, 1.0, 0.1, **refused), asked(3, 0.0, 0.4, golds=("noanswer",))]
    found = selective_summary(records, "f1")
    assert found.num_abstained == 1
    assert (found.answerable_answered.mean, found.unanswerable_refused.mean) == (1.0, 0.5)
    assert found.auroc_answerable.area == 1.0
    assert found.curve[-1].risk == near(2 / 3)


def test_a_failed_question_counts_as_wrong_with_the_confidence_0():
    found = selective_summary([asked(1, 1.0, 0.9), asked(2, 0.0, None, error="broke")], "f1")
    assert found.auroc_right.area == 1.0
    assert found.answerable_answered.mean == 0.5


def test_a_run_without_confidence_has_no_summary_of_it():
    assert summarise(run_of([record(1), record(2)])).selective is None


@pytest.mark.parametrize(("gold", "score", "if_answered"), [("noanswer", 1.0, 0.0), ("Bonn", 0.0, 1.0)])
def test_abstaining_is_right_for_unanswerable_questions_and_wrong_for_others(gold, score, if_answered):
    scoring = open_metrics(["f1", "exact_match", "match"])
    found = make_record(1, Example(Question("q", "Where?"), (gold,)), ABSTAINED, Trace(), scoring)
    assert set(found.scores.values()) == {score}
    assert set(found.scores_if_answered.values()) == {if_answered}
    assert (found.text, found.short) == (ABSTAINED.text, "noanswer")
    assert (found.confidence, found.abstained) == (0.1, "no passage supports it")


def test_an_abstained_answer_is_no_short_answer():
    answers = [record(1), record(2, abstained="no passage", confidence=0.1, short="noanswer")]
    assert summarise(run_of(answers)).share_answered == 0.5
