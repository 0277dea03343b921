import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Question
from askance.text import options
from askance.text.answers import short_answer
from askance.text.options import lettered, named_option

METALS = ("A: iron", "B: gold", "C: tin", "D: gold leaf")


def test_worked_examples():
    results = doctest.testmod(options)
    assert (results.attempted, results.failed) == (2, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", "A: iron"),
        ("(A)", "A: iron"),
        ("A.", "A: iron"),
        ("A: iron", "A: iron"),
        (" b)\n", "B: gold"),
        ("b", "B: gold"),
        ("B. It shines.", "B: gold"),
        ("Gold, I think.", "B: gold"),
        ("gold leaf", "D: gold leaf"),
        ("Option C is right.", "C: tin"),
        ("It must be (C).", "C: tin"),
        ("I choose A.", "A: iron"),
        ("Tin or B?", "C: tin"),
        # The article, words and abbreviations are no letters.
        ("A metal such as tin", "C: tin"),
        ("Because a b is small", ""),
        ("B-52 and D.C. and C's", ""),
        ("Golden irons", ""),
        ("b is small", ""),
        ("E", ""),
        ("", ""),
    ],
)
def test_letters_stand_alone_and_texts_are_whole_words(text, expected):
    assert named_option(text, METALS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("True", "true"),
        ("false, since nobody saw it", "false"),
        ("The claim is false.", "false"),
        ("REFUTES", "false"),
        ("The evidence supports it.", "true"),
        ("untrue", ""),
        ("Neither", ""),
    ],
)
def test_verdicts_have_the_names_of_fever(text, expected):
    assert named_option(text, ("true", "false")) == expected


def test_supports_is_no_verdict_where_there_are_other_options():
    assert named_option("It supports B", ("true", "false", "unknown")) == ""


@pytest.mark.parametrize(
    "given",
    [("A: iron", "gold"), ("A: iron", "A: gold"), ("iron",), ("a: iron", "b: gold"), ("A:", "B:"), ()],
)
def test_options_are_lettered_only_if_all_are(given):
    assert lettered(given) == {}
    assert named_option("B.", given) == ""


def test_a_stated_answer_goes_before_what_was_weighed_on_the_way():
    question = Question("q", "Which?", task="choice", options=METALS)
    assert short_answer("Iron rusts, B does not. So the answer is C.", question) == "C: tin"
    assert short_answer("(D)", question) == "D: gold leaf"
    assert short_answer("So the answer is A.", question) == "A: iron"


@given(st.text(max_size=30))
def test_what_is_named_is_an_option_or_nothing(text):
    assert named_option(text, METALS) in (*METALS, "")
