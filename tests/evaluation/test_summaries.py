"""Summaries of runs: metrics, costs, parts, and what the confidence of answers is worth."""

import dataclasses
import json

import pytest

from askance.configuration.evaluation import open_metrics
from askance.core.answers import Answer, Usage
from askance.core.errors import RunFolderError
from askance.core.trace import Trace
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.run.record import make_record
from askance.evaluation.statistics.compare import mean_interval
from askance.evaluation.statistics.selective import selective_summary
from askance.evaluation.statistics.summaries import main_metrics, summarise
from tests.evaluation.hand_made import record, run_of, scored
from tests.tolerances import near


def test_a_run_in_numbers():
    usages = [
        Usage(prompt_tokens=100, generated_tokens=10, reused_tokens=40, searches=1, calls=2, seconds=1.0),
        Usage(prompt_tokens=300, generated_tokens=30, reused_tokens=0, searches=2, calls=4, seconds=2.0),
        Usage(prompt_tokens=20, generated_tokens=0, reused_tokens=20, searches=0, seconds=6.0),
    ]
    records = [
        record(1, {"exact_match": 1.0, "f1": 1.0}, usage=usages[0]),
        record(2, {"exact_match": 0.0, "f1": 0.5}, usage=usages[1], short="noanswer", abstained="no passage"),
        record(3, {"exact_match": 0.0, "f1": 0.0}, usage=usages[2], short="", error="ModelFailure: no"),
    ]
    found = summarise(run_of(records))
    of_f1, costs = found.metrics["f1"], found.costs
    assert found.metrics["exact_match"].mean == near(1 / 3)
    assert (of_f1, of_f1.mean, of_f1.num_questions) == (mean_interval([1.0, 0.5, 0.0]), near(0.5), 3)
    assert (costs.searches, costs.calls, costs.median_seconds) == (1, 2, 2.0)
    assert (costs.tokens, costs.tokens_generated) == near(((110 + 330 + 20) / 3, 40 / 3))
    assert (costs.p95_seconds, found.share_answered) == near((2 + 0.9 * 4, 1 / 3))
    assert (found.num_questions, found.num_finished, found.failures, found.selective) == (3, 3, 1, None)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["main_metric"] == "f1"


def test_a_metric_counts_the_questions_it_applies_to():
    found = summarise(scored([None, 1.0, 0.0, None], metric="supporting_recall"))
    of_metric = found.metrics["supporting_recall"]
    assert (found.main_metric, of_metric.mean, of_metric.num_questions) == ("supporting_recall", 0.5, 2)
    found = summarise(scored([None, None]))
    assert (found.metrics, found.main_metric) == ({}, "")


def test_an_unfinished_run():
    run = run_of([record(2), record(5)], num_questions=7)
    assert not run.is_complete
    assert (summarise(run).num_finished, summarise(run).num_questions) == (2, 7)
    with pytest.raises(RunFolderError, match="no finished question"):
        summarise(run_of([], num_questions=7))


def test_kinds_and_hops_are_summarised_apart():
    records = [
        record(1, {"f1": 1.0}, kind="bridge", hops=2),
        record(2, {"f1": 0.0}, kind="bridge", hops=2),
        record(3, {"f1": 0.5}, kind="comparison", hops=2),
        record(4, {"f1": 0.2}, hops=2, error="ModelFailure: no"),
    ]
    found = summarise(run_of(records))
    assert [
        (each.part, each.num_questions, each.failures, each.metrics["f1"].mean) for each in found.by_kind
    ] == [
        ("bridge", 2, 0, 0.5),
        ("comparison", 1, 0, 0.5),
        ("not given", 1, 1, 0.2),
    ]
    assert found.by_hops == ()
    deep = [record(1, hops=10), record(2, hops=None), record(3, hops=2)]
    assert [part.part for part in summarise(run_of(deep)).by_hops] == ["2", "10", "not given"]


SCORES = {"exact_match": 1.0, "f1": 1.0, "yes_no_accuracy": 1.0, "choice_accuracy": 1.0, "str_em": None}
LONG = SCORES | {"choice_accuracy": None, "str_em": 0.5}


@pytest.mark.parametrize(
    ("questions", "expected"),
    [
        ([("yes_no", SCORES)], ("yes_no_accuracy",)),
        ([("yes_no", SCORES), ("open", SCORES)], ("f1", "exact_match")),
        ([("choice", SCORES)], ("choice_accuracy",)),
        ([("open", LONG)], ("str_em",)),
        ([("choice", SCORES), ("open", LONG)], ("f1", "exact_match")),
        ([("open", {"exact_match": 1.0})], ("exact_match",)),
        ([("open", {"rouge_l": 1.0})], ("rouge_l",)),
        ([("open", {"f1": None})], ()),
    ],
)
def test_the_metrics_to_judge_by(questions, expected):
    records = [record(number, scores, task=task) for number, (task, scores) in enumerate(questions, start=1)]
    assert main_metrics(run_of(records)) == expected


def confident(*questions):
    """Return the summary of confidence; a question is its score, its confidence, and other fields."""
    records = [
        record(number, {"f1": score}, confidence=confidence, **fields)
        for number, (score, confidence, fields) in enumerate(questions, start=1)
    ]
    return selective_summary(records, "f1")


def test_answers_sorted_by_confidence_have_no_risk_until_the_wrong_ones():
    found = confident((1.0, 0.9, {}), (0.0, 0.2, {}), (1.0, 0.8, {}), (0.0, 0.1, {}))
    assert found.aurc.mean == near((0 + 0 + 1 / 3 + 1 / 2) / 4)
    assert found.aurc.low <= found.aurc.mean <= found.aurc.high
    assert [point.risk for point in found.curve if point.coverage == 0.5] == [0.0]
    assert (found.curve[-1].coverage, found.curve[-1].risk) == (1.0, 0.5)
    assert (found.auroc_right.area, found.auroc_answerable, found.unanswerable_refused) == (1.0, None, None)


def test_equal_confidences_are_in_no_order():
    found = confident((1.0, 0.5, {}), (0.0, 0.5, {}))
    assert [point.risk for point in found.curve] == near([0.5] * len(found.curve))


def test_unanswerable_questions_count_as_lost_if_they_are_answered():
    refused = {"golds": ("noanswer",), "abstained": "no passage", "scores_if_answered": {"f1": 0.0}}
    found = confident((1.0, 0.9, {}), (1.0, 0.1, refused), (0.0, 0.4, {"golds": ("noanswer",)}))
    assert (found.num_abstained, found.auroc_answerable.area) == (1, 1.0)
    assert (found.answerable_answered.mean, found.unanswerable_refused.mean) == (1.0, 0.5)
    assert found.curve[-1].risk == near(2 / 3)


def test_a_failed_question_counts_as_wrong_with_the_confidence_0():
    found = confident((1.0, 0.9, {}), (0.0, None, {"error": "broke"}))
    assert (found.auroc_right.area, found.answerable_answered.mean) == (1.0, 0.5)


@pytest.mark.parametrize(("gold", "score", "if_answered"), [("noanswer", 1.0, 0.0), ("Bonn", 0.0, 1.0)])
def test_abstaining_is_right_for_unanswerable_questions_and_wrong_for_others(gold, score, if_answered):
    scoring = open_metrics(["f1", "exact_match", "match"])
    answer = Answer("So the answer is Bonn.", "Bonn", confidence=0.1, abstained="no passage supports it")
    found = make_record(1, Example(Question("q", "Where?"), (gold,)), answer, Trace(), scoring)
    assert set(found.scores.values()) == {score}
    assert set(found.scores_if_answered.values()) == {if_answered}
    assert (found.text, found.short) == (answer.text, "noanswer")
    assert (found.confidence, found.abstained) == (0.1, "no passage supports it")
