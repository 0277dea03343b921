"""Metrics by name: what each reads, when it applies, and names that are none."""

import re
from math import log2

import pytest

from askance.configuration.catalogue import DEFAULT_METRICS, METRICS
from askance.configuration.evaluation import open_metrics
from askance.core.answers import Answer, Citation
from askance.core.errors import InputError, MissingExtra
from askance.core.installing import install_line
from askance.core.trace import Searched, Trace
from askance.core.types import Hit, Passage, Question
from askance.evaluation.datasets import Example
from askance.evaluation.metrics import Metric
from tests.tolerances import near

BONN, TOSCA = Passage("1", "Bonn", "Bonn lies on the Rhine."), Passage("2", "Tosca", "An opera.")
EXAMPLE = Example(Question("q", "Which river?"), ("the Rhine",), ("Fidelio", "Bonn"))
ANSWER = Answer("Bonn is meant. So the answer is river Rhine.", "river Rhine", (Citation(1, BONN, 0, 14),))
EVERY = (*METRICS, "supporting_recall@1")
OF_TITLES = {"citation_precision", "citation_recall", "supporting_recall", "supporting_recall@1"}
OF_TITLES |= {"ndcg", "mrr", "map"}


def events():
    trace = Trace()
    for passage in (TOSCA, BONN):
        trace.add(Searched, query="q", k=1, hits=(Hit(passage, 1.0, 1),))
    return trace.events


of_length = Metric(lambda text, golds, first=9: float(len(text) <= first), "text", counts_passages=True)


@pytest.mark.parametrize(
    ("name", "text", "gold", "score"),
    [
        ("exact_match", "O’Brien", "O'Brien", 0),  # as SQuAD's script scores it
        ("exact_match:unicode", "O’Brien", "O'Brien", 1),
        ("exact_match:unicode", "“1914–１９18”", "1914-1918", 1),
        ("f1:unicode", "Paris – “now”", "Paris now", 1),
        ("match:unicode", "the 1914–1918 war", "1914-1918", 1),
        (f"{__name__}:of_length@5", "Paris", "", 1),
        (f"{__name__}:of_length@4", "Paris", "", 0),
        (f"{__name__}:of_length", "Paris", "", 1),
    ],
)
def test_a_parameter_follows_the_name(name, text, gold, score):
    example, answer = Example(EXAMPLE.question, (gold,)), Answer(text, text)
    assert open_metrics([name]).scores(example, answer, ()) == {name: score}


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
        "answer_recall": 1,
        "ndcg": near(1 / log2(3) / (1 + 1 / log2(3)), "formula"),
        "mrr": 1 / 2,
        "map": 1 / 4,
        "supporting_recall@1": 0,
    }


def test_accuracy_is_not_had_by_naming_the_gold_on_the_way():
    for text, short in (
        ("Maybe the Rhine. So the answer is the Elbe.", "the Elbe"),
        ("Maybe the Rhine.", ""),
    ):
        scores = open_metrics(["accuracy", "match"]).scores(EXAMPLE, Answer(text, short), ())
        assert scores == {"accuracy": 0, "match": 1}


@pytest.mark.parametrize(
    ("golds", "titles", "applied"),
    [
        ((), ("Bonn",), OF_TITLES),
        (("yes",), (), {*EVERY} - OF_TITLES - {"choice_accuracy", "str_em", "answer_recall"}),
        (
            ("A",),
            ("Bonn",),
            {*EVERY} - {"yes_no_accuracy", "choice_accuracy", "str_em", "accuracy", "answer_recall"},
        ),
        (("Rhine", "no"), (), {*EVERY} - OF_TITLES - {"yes_no_accuracy", "choice_accuracy", "str_em"}),
        (("no", "No."), ("a",), {*EVERY} - {"choice_accuracy", "str_em", "answer_recall"}),
    ],
)
def test_whether_a_metric_applies_depends_on_the_example_alone(golds, titles, applied):
    """A failed question, whose answer is None, is wrong by every metric that applies."""
    example, scoring = Example(Question("q", "Is it?"), golds, titles), open_metrics(EVERY)
    for answer in (ANSWER, Answer("yes", "yes"), Answer(""), None):
        scores = scoring.scores(example, answer, events())
        assert {name for name, score in scores.items() if score is not None} == applied
        assert answer is not None or not any(scores.values())


def test_a_failed_question_is_wrong_where_an_empty_answer_is_right_and_the_defaults_need_no_extra():
    example, scoring = Example(EXAMPLE.question, ("The A",)), open_metrics(["exact_match"])
    assert scoring.scores(example, Answer(""), ()) == {"exact_match": 1}
    assert scoring.scores(example, None, ()) == {"exact_match": 0}
    assert open_metrics().names == DEFAULT_METRICS
    assert not any(METRICS[name].package for name in DEFAULT_METRICS)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["recall", "exact"], "unknown metric 'exact': did you mean 'exact_match'"),
        (["recall", "F1@5"], "unknown metric 'F1' in 'F1@5': did you mean 'f1'"),
        (["recall", ""], "unknown metric ''"),
        ([], "no metric is named: name one or more, such as exact_match"),
        (["f1", "recall", "f1"], "'f1' is named twice, first as 'f1'"),
        (["f1@5"], r"'f1@5': f1 takes no '@5'; write f1\[:unicode\]\."),
        (["accuracy:dragin"], "takes no ':dragin'; write accuracy"),
        (["str_em:unicode"], "takes no ':unicode'; write str_em"),
        (["f1:unicode", "f1:unicode"], "'f1:unicode' is named twice"),
        ([f"{__name__}:of_length@0"], "'0' is no number of passages; write .*:of_length@5"),
        ([f"{__name__}:EXAMPLE"], "is no function"),
        (["supporting_recall:5"], r"takes no ':5'; write supporting_recall\[@K\]"),
        (["supporting_recall@"], "'' is no number of passages; write supporting_recall@5"),
        *(([f"supporting_recall@{number}"], "is no number") for number in ("0", "05", "-1", "5\n", "٥")),
    ],
)
def test_bad_names(names, message):
    with pytest.raises(InputError, match=message):
        open_metrics(names)


def test_a_missing_package_is_known_before_anything_runs(monkeypatch):
    monkeypatch.setattr("askance.configuration.evaluation.find_spec", lambda package: None)
    told = f"metric 'rouge_l'.*'rouge_score'.*{re.escape(install_line('eval'))}"
    with pytest.raises(MissingExtra, match=told):
        open_metrics(["f1", "rouge_l"])
    assert open_metrics(["f1"]).names == ("f1",)
