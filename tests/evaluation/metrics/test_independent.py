"""The same numbers from libraries that others wrote; ours differ on purpose for yes, no and empty answers."""

from math import log2

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ir_measures import Qrel, R, ScoredDoc, iter_calc

pytest.importorskip("torchmetrics")

from torchmetrics.functional.text import squad

from askance.configuration.evaluation import open_metrics
from askance.core.answers import Answer
from askance.core.trace import Searched, Trace
from askance.core.types import Hit, Passage, Question
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.answers import answer_recall, exact_match, f1, supporting_recall
from askance.text.answers import normalise_answer
from tests.tolerances import near

WORDS = st.lists(st.sampled_from("the A An Rhine rhine. River of Bonn's U.S. – Köln 7,5".split()), max_size=6)
TEXTS = st.one_of(st.text(max_size=30), WORDS.map(" ".join))


def squad_scores(prediction, golds):
    """Exact match and F1, from 0 to 1, as torchmetrics computes those of SQuAD."""
    answers = {"text": golds, "answer_start": [0] * len(golds)}
    scores = squad({"prediction_text": prediction, "id": "q"}, {"answers": answers, "id": "q"})
    return scores["exact_match"].item() / 100, scores["f1"].item() / 100


@settings(deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_exact_match_and_f1_are_those_of_squad(prediction, golds):
    forms = [normalise_answer(text) for text in (prediction, *golds)]
    assume(not set(forms) & {"yes", "no", "noanswer"})
    theirs = squad_scores(prediction, golds)
    assert exact_match(prediction, golds) == theirs[0]
    if forms[0]:
        assert f1(prediction, golds) == near(theirs[1], "formula", "float32")


def test_answer_recall_by_hand():
    def recall(*golds, first=None, task="open", options=()):
        trace = Trace()
        texts = "Bonn is old.", "The Rhine flows through BONN!", "Mannheim, too."
        hits = tuple(
            Hit(Passage(f"{rank}", "t", text), 1.0, rank) for rank, text in enumerate(texts, start=1)
        )
        trace.add(Searched, query="q", k=3, hits=hits)
        return answer_recall(trace.events, Example(Question("q", "?", task, options), golds), first=first)

    assert (recall("Elbe", "the rhine"), recall("Elbe"), recall("Mann")) == (1, 0, 0), "whole words"
    assert (recall("Rhine", first=1), recall("Rhine", first=2)) == (0, 1)
    assert recall("flows through Bonn") == 1
    assert [recall("yes"), recall("noanswer"), recall("the"), recall()] == [None] * 4
    assert recall("A: Bonn", task="choice", options=("A: Bonn", "B: Ulm")) is None
    assert answer_recall((), Example(Question("q", "?"), ("Rhine",))) == 0


def test_rankings_by_hand():
    """Of the documents c, a, d and b, those called a, b and x are relevant."""
    trace = Trace()
    for titles in ("cac", "dbc"):
        hits = tuple(Hit(Passage(f"{t}{rank}", t, "…"), 1.0, rank) for rank, t in enumerate(titles, start=1))
        trace.add(Searched, query="q", k=3, hits=hits)
    example = Example(Question("q", "Which?"), ("a",), ("a", "b", "x"))
    ideal = 1 + 1 / log2(3) + 1 / 2
    for name, expected in (
        ("ndcg", (1 / log2(3) + 1 / log2(5)) / ideal),
        ("ndcg@2", 1 / log2(3) / (1 + 1 / log2(3))),
        ("mrr", 1 / 2),
        ("mrr@1", 0),
        ("map", (1 / 2 + 2 / 4) / 3),
        ("map@3", 1 / 2 / 3),
    ):
        metric = open_metrics([name]).metrics[name]
        assert metric.score(example, Answer(""), trace.events) == near(expected, "formula"), name
        assert metric.score(example, Answer(""), ()) == 0, "nothing was found"
        assert metric.score(Example(Question("q", "?"), ("a",)), Answer(""), trace.events) is None


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=4), min_size=1, max_size=4),
    st.sets(st.sampled_from("abcdefgh"), min_size=1),
    st.integers(1, 9),
)
def test_supporting_recall_is_recall_at_k(searches, wanted, k):
    """Documents have one passage each, and are ranked by when they were first found."""
    assume(any(searches))
    trace = Trace()
    for titles in searches:
        hits = tuple(Hit(Passage(t, t, "…"), 1.0, rank) for rank, t in enumerate(titles, start=1))
        trace.add(Searched, query="q", k=4, hits=hits)
    ranked = list(dict.fromkeys(title for titles in searches for title in titles))
    run = [ScoredDoc("q", title, -float(place)) for place, title in enumerate(ranked)]
    (theirs,) = iter_calc([R @ k], [Qrel("q", title, 1) for title in wanted], run)
    example = Example(Question("q", "Which?"), ("a",), tuple(sorted(wanted)))
    assert supporting_recall(trace.events, example, first=k) == near(theirs.value)
