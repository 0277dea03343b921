"""Metrics of one text against gold answers or an example, each with scores that were worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.answers import (
    accuracy,
    choice_accuracy,
    exact_match,
    match,
    rouge_l,
    rouge_lsum,
    str_em,
    yes_no_accuracy,
)
from tests.tolerances import near

IRON = Example(
    Question("q", "Which rusts?", task="choice", options=("A: iron", "B: gold", "C: a cast iron pan")),
    ("A: iron", "iron"),
)
CLAIM = Example(Question("q", "Beetroot cures.", task="choice", options=("true", "false")), ("false",))


def parts(*groups):
    return Example(Question("q", "When was the bridge opened?"), ("gold",), answer_groups=groups)


BRIDGE = parts(("1898",), ("12 November 1949", "1949"))
LETTERS = ("A", "(A)", "A.", "A:", "a", "A: iron", "Iron", "(A) iron", "iron.")
OTHERS = ("B", "gold", "a cast iron pan", "C: A cast iron pan", "", "A pan")


@pytest.mark.parametrize(
    ("metric", "text", "against", "expected"),
    [
        # "rhine flows north": 3 of 4 words, 3 of 5.
        (rouge_l, "The Rhine flows north.", ["Rhine: it flows north, mostly"], 2 * 3 / (4 + 5)),
        (rouge_l, "north flows", ["flows north"], 1 / 2),  # one word is common in order
        (rouge_l, "it flows", ["it flowed", "a river"], 1 / 2),  # the best gold; there is no stemming
        (rouge_l, "it flows", ["a river", "it flows"], 1),
        (rouge_l, "Köln", ["K ln"], 1),  # outside a to z there are no words
        (rouge_l, "Киев", ["Киев"], 0),
        (rouge_l, "", ["Bonn"], 0),
        # "bridg fell" are 2 of 3 words, and of 4: "bridges" and "bridge" have one stem.
        (rouge_lsum, "The bridges fell.", ["A bridge fell down."], 2 * 2 / (3 + 4)),
        (rouge_lsum, "It fell [1].", ["It fell."], 1),
        (rouge_lsum, "It fell.", ["A river.", "It fell."], 1),
        (rouge_lsum, "", ["It fell."], 0),
        # Sentences may change places, unlike in ROUGE-L.
        (rouge_lsum, "It opened in 1949. It fell in 1945.", ["It fell in 1945. It opened in 1949."], 1),
        (rouge_l, "It opened in 1949. It fell in 1945.", ["It fell in 1945. It opened in 1949."], 4 / 8),
        (str_em, "The old bridge was opened in 1898 [1].", BRIDGE, 1 / 2),
        (str_em, "In 1949.\nBefore that, in 1898.", BRIDGE, 1),
        (str_em, "on the 12 November [2] 1949", BRIDGE, 1 / 2),
        (str_em, "In [1898] none", BRIDGE, 1 / 2),
        (str_em, "In 1945 [1].", BRIDGE, 0),
        (str_em, "", BRIDGE, 0),
        (str_em, "the  u.s.a!", parts(("The USA",), ("a Rhine",)), 1 / 2),  # both sides are normalised
        (str_em, "Bonn", parts(("The",), ("Bonn", "A")), 1),  # nothing is left of the first group
        (yes_no_accuracy, "yes", ["yes"], 1),
        (yes_no_accuracy, "No.", ["no"], 1),
        (yes_no_accuracy, "no", ["yes"], 0),
        (yes_no_accuracy, "", ["no"], 0),
        (yes_no_accuracy, "yes and no", ["yes"], 0),
        *((choice_accuracy, letter, IRON, 1) for letter in LETTERS),
        *((choice_accuracy, other, IRON, 0) for other in OTHERS),
        *((choice_accuracy, right, CLAIM, 1) for right in ("False", "REFUTES", "false. It is not true.")),
        *((choice_accuracy, wrong, CLAIM, 0) for wrong in ("true", "SUPPORTS", "?")),
    ],
)
def test_scores(metric, text, against, expected):
    assert metric(text, against) == near(expected)


@pytest.mark.parametrize(
    ("metric", "against"),
    [
        (str_em, parts(("The",))),
        (str_em, parts()),
        (yes_no_accuracy, ["Bonn"]),
        (yes_no_accuracy, ["yes", "no"]),
        (choice_accuracy, Example(Question("q", "Which?"), ("A",))),
        (choice_accuracy, Example(IRON.question, ())),
    ],
)
def test_what_does_not_apply(metric, against):
    assert metric("yes", against) is None


@pytest.mark.parametrize(
    ("text", "golds", "of_accuracy", "raw"),
    [
        ("It is the Rhine.", ["Elbe", "Rhine"], 1, 1),
        ("it is the rhine", ["Rhine"], 1, 0),
        ("the U.S.A., I think", ["USA"], 1, 0),
        ("William Johnson", ["son"], 1, 1),
        ("Rhine", ["river Rhine"], 0, 0),
        ("river, the Rhine", ["River Rhine"], 1, 0),
        ("", ["Rhine"], 0, 0),
        # "The" leaves nothing behind, which everything contains.
        ("Bonn", ["The", "Köln"], 0, 0),
        ("The Bonn", ["The"], None, 1),
        ("Bonn", [""], None, None),
        ("Bonn", ["", "Bonn"], 1, 1),
    ],
)
def test_accuracy_and_match(text, golds, of_accuracy, raw):
    assert accuracy(text, golds) == match(text, golds, "normalised") == of_accuracy
    assert match(text, golds) == match(text, golds, "raw") == raw


@given(st.text(max_size=20), st.lists(st.text(max_size=20), min_size=1, max_size=3))
def test_an_exact_match_is_accurate(text, golds):
    if exact_match(text, golds, "airrag"):
        assert accuracy(text, golds) == 1


@given(st.text(max_size=9), st.text(min_size=1, max_size=9), st.text(max_size=9))
def test_a_gold_is_found_wherever_it_stands(before, gold, behind):
    assert match(before + gold + behind, [gold]) == 1
