import doctest

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from askance.configuration.catalogue import METRICS
from askance.evaluation.metrics import answers
from askance.evaluation.metrics.answers import exact_match, f1, precision, recall
from askance.text.answers import normalise_answer
from tests.tolerances import near

TEXTS = st.one_of(
    st.text(max_size=30),
    st.lists(st.sampled_from("the a yes no noanswer Rhine rhine. River of Bonn".split()), max_size=6).map(
        " ".join
    ),
)


@pytest.mark.parametrize(
    "name",
    ["closed_set_form", *(name for name, each in METRICS.items() if each.reads in ("short answer", "text"))],
)
def test_worked_examples(name):
    (example,) = doctest.DocTestFinder().find(getattr(answers, name), globs=vars(answers))
    results = doctest.DocTestRunner().run(example)
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize(
    ("prediction", "golds", "em", "p", "r"),
    [
        ("The Rhine!", ["rhine"], 1, 1, 1),
        ("the river Rhine", ["Rhine", "the Elbe"], 0, 1 / 2, 1),
        ("Rhine", ["the river Rhine"], 0, 1, 1 / 2),
        # Multisets: the second "bora" is not in the gold, and both golds' words count once.
        ("Bora Bora", ["Bora"], 0, 1 / 2, 1),
        ("New York, New York", ["New York City"], 0, 2 / 4, 2 / 3),
        # Yes and no count only whole, whichever side has them.
        ("no", ["no one"], 0, 0, 0),
        ("yes it is", ["yes"], 0, 0, 0),
        ("Yes.", ["yes"], 1, 1, 1),
        ("noanswer", ["noanswer given"], 0, 0, 0),
        ("No", ["no way", "no"], 1, 1, 1),
        ("no one", ["no", "no one here"], 0, 1, 2 / 3),
        # Articles and punctuation alone leave no words, but are equal.
        ("", ["The A"], 1, 0, 0),
        ("", ["Bonn"], 0, 0, 0),
        ("Bonn", ["Köln"], 0, 0, 0),
        ("Anna", ["Ann"], 0, 0, 0),
    ],
)
def test_by_hand(prediction, golds, em, p, r):
    assert exact_match(prediction, golds) == em
    assert precision(prediction, golds) == near(p)
    assert recall(prediction, golds) == near(r)
    if len(golds) == 1:
        assert f1(prediction, golds) == near(2 * p * r / (p + r) if p + r else 0)


def test_each_is_best_over_the_golds_by_itself():
    golds = ["Bonn on the Rhine in Germany", "city"]
    prediction = "city Bonn"
    assert precision(prediction, golds) == 1 / 2
    assert recall(prediction, golds) == 1
    assert f1(prediction, golds) == near(2 / 3)
    golds = ["a b c d", "Bonn x y z"]
    prediction = "b c q r s t Bonn"
    assert precision(prediction, golds) == near(2 / 7)
    assert recall(prediction, golds) == near(2 / 3)  # of "b c d": the article is gone
    assert f1(prediction, golds) == near(4 / 10)


def test_precision_and_recall_may_come_from_different_golds():
    golds = ["Ada Augusta Lovelace of Ockham", "Ada"]
    assert precision("Ada Augusta Lovelace", golds) == 1
    assert recall("Ada Augusta Lovelace", golds) == 1
    assert f1("Ada Augusta Lovelace", golds) == near(2 * 3 / (3 + 5))


def test_airrag_ignores_golds_of_which_nothing_is_left():
    assert exact_match("", ["The A"], "dragin") == 1
    assert exact_match("", ["The A", "Bonn"], "airrag") == 0
    assert exact_match("Bonn!", ["The A", "Bonn"], "airrag") == 1
    for metric in (exact_match, f1, precision, recall):
        assert metric("The A", ["The A"], "airrag") is None
    assert f1("river Bonn", ["A", "Bonn"], "airrag") == f1("river Bonn", ["A", "Bonn"]) == near(2 / 3)


def test_airrag_takes_yes_and_no_whole_too():
    assert f1("no", ["no one"], "airrag") == 0
    assert f1("no one", ["no", "no one here"], "airrag") == near(4 / 5)


def test_exact_match_of_a_closed_set():
    assert exact_match("(A)", ["A"], "selfrag") == 1
    assert exact_match("(B)", ["A"], "selfrag") == exact_match("", ["A"], "selfrag") == 0
    assert exact_match("True, as studies show.", ["SUPPORTS"], "selfrag") == 1
    assert exact_match("(A)", ["A"]) == exact_match("the", ["A"]) == 1


@given(TEXTS, TEXTS)
def test_one_gold_makes_f1_symmetric_and_swaps_precision_and_recall(left, right):
    assert f1(left, [right]) == f1(right, [left])
    assert precision(left, [right]) == recall(right, [left])


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_all_lie_between_0_and_1_and_another_gold_never_hurts(prediction, golds):
    for metric in (exact_match, f1, precision, recall):
        assert 0 <= metric(prediction, golds[:1]) <= metric(prediction, golds) <= 1


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_the_two_normalisations_agree_where_something_is_left_of_every_gold(prediction, golds):
    assume(all(map(normalise_answer, golds)))
    for metric in (exact_match, f1, precision, recall):
        assert metric(prediction, golds, "airrag") == metric(prediction, golds, "dragin")


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_an_exact_match_has_f1_of_1(prediction, golds):
    assume(normalise_answer(prediction))
    golds = [*golds, prediction.upper().lower()]
    if exact_match(prediction, golds):
        assert f1(prediction, golds) == precision(prediction, golds) == recall(prediction, golds) == 1
