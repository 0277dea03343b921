import pytest

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.answers import str_em

QUESTION = Question("q", "When was the bridge opened?")
GROUPS = (("1898",), ("12 November 1949", "1949"))


def example(*groups):
    return Example(QUESTION, ("gold",), answer_groups=groups)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The old bridge was opened in 1898 [1].", 1 / 2),
        ("In 1949.\nBefore that, in 1898.", 1),
        ("on the 12 November [2] 1949", 1 / 2),
        ("In [1898] none", 1 / 2),
        ("In 1945 [1].", 0),
        ("", 0),
    ],
)
def test_by_hand(text, expected):
    assert str_em(text, example(*GROUPS)) == expected


def test_both_sides_are_normalised():
    assert str_em("the  u.s.a!", example(("The USA",), ("a Rhine",))) == 1 / 2


def test_groups_of_which_nothing_is_left_are_ignored():
    assert str_em("Bonn", example(("The",), ("Bonn", "A"))) == 1
    assert str_em("Bonn", example(("The",))) is None
    assert str_em("Bonn", example()) is None
