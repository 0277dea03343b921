import re

import pytest

from askance.configuration.catalogue import DEFAULT_METRICS, METRICS
from askance.configuration.evaluation import open_metrics
from askance.core.answers import Answer, Citation
from askance.core.errors import InputError, MissingExtra, UnknownName
from askance.core.installing import install_line
from askance.core.trace import Searched, Trace
from askance.core.types import Hit, Passage, Question
from askance.evaluation.datasets import Example
from tests.tolerances import near

BONN, TOSCA = Passage("1", "Bonn", "Bonn lies on the Rhine."), Passage("2", "Tosca", "An opera.")
EXAMPLE = Example(Question("q", "Which river?"), ("the Rhine",), ("Fidelio", "Bonn"))
ANSWER = Answer("Bonn is meant. So the answer is river Rhine.", "river Rhine", (Citation(1, BONN, 0, 14),))
EVERY = (*METRICS, "f1:airrag", "exact_match:selfrag", "match:normalised", "supporting_recall@1")


def events():
    trace = Trace()
    for passage in (TOSCA, BONN):
        trace.add(Searched, query="q", k=1, hits=(Hit(passage, 1.0, 1),))
    return trace.events


def test_every_metric_reads_its_own():
    scoring = open_metrics(EVERY)
    assert scoring.names == EVERY
    scores = scoring.scores(EXAMPLE, ANSWER, iter(events()))
    assert list(scores) == list(EVERY)
    assert scores == {
        "exact_match": 0,
        "f1": near(2 / 3),
        "precision": 1 / 2,
        "recall": 1,
        "accuracy": 1,
        "yes_no_accuracy": None,
        "choice_accuracy": None,
        "match": 0,  # the text has no "the Rhine"
        "rouge_l": near(2 * 2 / (9 + 2)),
        "rouge_lsum": near(2 * 2 / (9 + 2)),
        "str_em": None,
        "citation_precision": 1,
        "citation_recall": 1 / 2,
        "supporting_recall": 1 / 2,
        "f1:airrag": near(2 / 3),
        "exact_match:selfrag": 0,
        "match:normalised": 1,
        "supporting_recall@1": 0,
    }


def test_accuracy_is_not_had_by_naming_the_gold_on_the_way():
    thinking = Answer("It may be the Rhine. So the answer is the Elbe.", "the Elbe")
    unstated = Answer("It may be the Rhine.")
    scoring = open_metrics(["accuracy", "match"])
    for answer in (thinking, unstated):
        assert scoring.scores(EXAMPLE, answer, ()) == {"accuracy": 0, "match": 1}


def test_a_failed_question_is_wrong_in_all_that_applies_to_it():
    scores = open_metrics(EVERY).scores(EXAMPLE, None, events())
    none = {name for name, score in scores.items() if score is None}
    assert none == {"yes_no_accuracy", "choice_accuracy", "str_em"}
    assert {score for score in scores.values() if score is not None} == {0.0}
    empty_gold = Example(Question("q", "Is it?", "yes_no"), ("The",))
    assert open_metrics(["exact_match"]).scores(empty_gold, Answer(""), ()) == {"exact_match": 1}
    assert open_metrics(["exact_match"]).scores(empty_gold, None, ()) == {"exact_match": 0}


@pytest.mark.parametrize(
    ("golds", "titles"),
    [((), ("Bonn",)), (("yes",), ()), (("A",), ("Bonn",)), (("Rhine", "no"), ()), (("no", "No."), ("a",))],
)
def test_whether_a_metric_applies_depends_on_the_example_alone(golds, titles):
    example = Example(Question("q", "Is it?"), golds, titles)
    scoring = open_metrics(EVERY)
    seen = [scoring.scores(example, answer, events()) for answer in (ANSWER, Answer("yes", "yes"), None)]
    seen.append(scoring.scores(example, Answer(""), ()))
    applied = [{name for name, score in scores.items() if score is not None} for scores in seen]
    assert all(names == applied[0] for names in applied)


def test_without_golds_nothing_that_compares_with_them_applies():
    example = Example(Question("q", "Tell me of Ada."), (), ("Bonn",))
    for answer in (ANSWER, Answer("", ""), None):
        scores = open_metrics(EVERY).scores(example, answer, events())
        assert {name for name, score in scores.items() if score is not None} == {
            "citation_precision",
            "citation_recall",
            "supporting_recall",
            "supporting_recall@1",
        }


def test_the_defaults_need_no_extra():
    assert open_metrics().names == DEFAULT_METRICS
    assert not any(METRICS[name].package for name in DEFAULT_METRICS)


def test_the_parameter_changes_the_score():
    example = Example(EXAMPLE.question, ("The A",))
    names = ["exact_match", "exact_match:airrag", "exact_match:selfrag"]
    assert list(open_metrics(names).scores(example, Answer(""), ()).values()) == [1, None, 0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exact", "unknown metric 'exact': did you mean 'exact_match'"),
        ("F1:airrag", "unknown metric 'F1' in 'F1:airrag': did you mean 'f1'"),
        ("", "unknown metric ''"),
        ("f1:airag", "unknown normalisation 'airag' in metric 'f1:airag': did you mean 'airrag'"),
        ("f1:", "unknown normalisation ''"),
        ("f1:selfrag", "unknown normalisation 'selfrag'"),
    ],
)
def test_unknown_names(name, message):
    with pytest.raises(UnknownName, match=message):
        open_metrics(["recall", name])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "no metric is named: name one or more, such as exact_match"),
        (["f1", "recall", "f1"], "'f1' is named twice, first as 'f1'"),
        (["f1", "f1:dragin"], "'f1:dragin' is named twice, first as 'f1'"),
        (["f1@5"], r"'f1@5': f1 takes no '@5'; write f1\[:airrag\]"),
        (["accuracy:dragin"], "takes no ':dragin'; write accuracy"),
        (["supporting_recall:5"], r"takes no ':5'; write supporting_recall\[@K\]"),
        (["supporting_recall@"], "'' is no number of passages; write supporting_recall@5"),
        (["supporting_recall@0"], "'0' is no number"),
        (["supporting_recall@05"], "'05' is no number"),
        (["supporting_recall@-1"], "'-1' is no number"),
        (["supporting_recall@5\n"], "is no number"),
        (["supporting_recall@٥"], "is no number"),
    ],
)
def test_bad_parameters(names, message):
    with pytest.raises(InputError, match=message):
        open_metrics(names)


def test_the_same_metric_with_other_parameters_is_another():
    names = ("f1", "f1:airrag", "supporting_recall", "supporting_recall@5", "supporting_recall@10")
    assert open_metrics(names).names == names


def test_a_missing_package_is_known_before_anything_runs(monkeypatch):
    monkeypatch.setattr("askance.configuration.evaluation.find_spec", lambda package: None)
    with pytest.raises(
        MissingExtra, match=f"metric 'rouge_l'.*'rouge_score'.*{re.escape(install_line('eval'))}"
    ):
        open_metrics(["f1", "rouge_l"])
    assert open_metrics(["f1"]).names == ("f1",)


def test_every_spec_shows_the_parameters():
    for metric in METRICS.values():
        others = metric.normalisations[1:]
        shown = f"[:{'|'.join(others)}]" if others else "[@K]" if metric.counts_passages else ""
        assert metric.parameter == shown
