import dataclasses
import json

import pytest

from askance.core.answers import Usage
from askance.core.errors import RunFolderError
from askance.evaluation.statistics.summaries import main_metrics, summarise
from tests.evaluation.hand_made import record, run_of, scored, written
from tests.tolerances import near


def test_a_run_in_numbers(tmp_path):
    usages = [
        Usage(prompt_tokens=100, generated_tokens=10, reused_tokens=40, searches=1, seconds=1.0),
        Usage(prompt_tokens=300, generated_tokens=30, reused_tokens=0, searches=2, seconds=2.0),
        Usage(prompt_tokens=20, generated_tokens=0, reused_tokens=20, searches=0, seconds=6.0),
    ]
    records = [
        record(1, {"exact_match": 1.0, "f1": 1.0}, usage=usages[0]),
        record(2, {"exact_match": 0.0, "f1": 0.5}, usage=usages[1], short=""),
        record(3, {"exact_match": 0.0, "f1": 0.0}, usage=usages[2], short="", error="ModelFailure: no"),
    ]
    found = summarise(written(tmp_path / "run", records))
    assert found.metrics["exact_match"].mean == near(1 / 3)
    assert found.metrics["f1"].mean == near(0.5)
    assert (found.metrics["f1"].low, found.metrics["f1"].high) == (0.0, 1.0)
    assert found.metrics["f1"].num_questions == 3
    assert (found.costs.searches, found.costs.tokens_reused) == (1, 20)
    assert found.costs.tokens_computed == near((70 + 330 + 0) / 3)
    assert found.costs.tokens_generated == near(40 / 3)
    assert found.costs.median_seconds == 2.0
    assert found.costs.p95_seconds == near(2 + 0.9 * 4)
    assert found.share_answered == near(1 / 3)
    assert (found.num_questions, found.num_finished, found.failures) == (3, 3, 1)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["main_metric"] == "f1"


def test_a_metric_counts_the_questions_it_applies_to():
    found = summarise(scored([None, 1.0, 0.0, None], metric="supporting_recall"))
    assert found.metrics["supporting_recall"].mean == 0.5
    assert found.metrics["supporting_recall"].num_questions == 2
    assert found.main_metric == "supporting_recall"


def test_a_metric_that_applies_to_no_question_is_left_out():
    found = summarise(scored([None, None]))
    assert (found.metrics, found.main_metric) == ({}, "")


def test_an_unfinished_run_says_so():
    run = run_of([record(2), record(5)], num_questions=7)
    assert not run.is_complete
    assert (summarise(run).num_finished, summarise(run).num_questions) == (2, 7)
    with pytest.raises(RunFolderError, match="no finished question"):
        summarise(run_of([], num_questions=7))


def test_parts_are_told_apart():
    records = [
        record(1, {"f1": 1.0}, kind="bridge", hops=2),
        record(2, {"f1": 0.0}, kind="bridge", hops=2),
        record(3, {"f1": 0.5}, kind="comparison", hops=2),
        record(4, {"f1": 0.2}, hops=2, error="ModelFailure: no"),
    ]
    found = summarise(run_of(records))
    assert [(part.part, part.num_questions, part.metrics["f1"].mean) for part in found.by_kind] == [
        ("bridge", 2, 0.5),
        ("comparison", 1, 0.5),
        ("not given", 1, 0.2),
    ]
    assert found.by_kind[-1].failures == 1
    assert found.by_hops == ()
    deep = [record(1, hops=10), record(2, hops=None), record(3, hops=2)]
    assert [part.part for part in summarise(run_of(deep)).by_hops] == ["2", "10", "not given"]


def test_the_metric_to_judge_by():
    both = {"exact_match": 1.0, "f1": 1.0, "yes_no_accuracy": 1.0}
    yes_no, open_ = record(1, both, task="yes_no"), record(2, both)
    assert main_metrics(run_of([yes_no])) == ("yes_no_accuracy",)
    assert main_metrics(run_of([yes_no, open_])) == ("f1", "exact_match")
    assert main_metrics(scored([1.0], metric="exact_match")) == ("exact_match",)
    assert main_metrics(scored([1.0], metric="rouge_l")) == ("rouge_l",)
    assert main_metrics(scored([None])) == ()


def test_the_metric_to_judge_choices_and_long_answers_by():
    scores = {"exact_match": 1.0, "f1": 1.0, "choice_accuracy": 1.0, "str_em": None}
    choice = record(1, scores, task="choice")
    long = record(2, scores | {"choice_accuracy": None, "str_em": 0.5})
    assert main_metrics(run_of([choice])) == ("choice_accuracy",)
    assert main_metrics(run_of([long])) == ("str_em",)
    assert main_metrics(run_of([choice, long])) == ("f1", "exact_match")
