import pytest

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.answers import choice_accuracy

IRON = Example(
    Question("q", "Which rusts?", task="choice", options=("A: iron", "B: gold", "C: a cast iron pan")),
    ("A: iron", "iron"),
)
CLAIM = Example(Question("q", "Beetroot cures.", task="choice", options=("true", "false")), ("false",))


@pytest.mark.parametrize("prediction", ["A", "(A)", "A.", "A:", "a", "A: iron", "Iron", "(A) iron", "iron."])
def test_letter_and_text_are_right(prediction):
    assert choice_accuracy(prediction, IRON) == 1


@pytest.mark.parametrize("prediction", ["B", "gold", "a cast iron pan", "C: A cast iron pan", "", "A pan"])
def test_what_is_not_right_is_wrong(prediction):
    assert choice_accuracy(prediction, IRON) == 0


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [("False", 1), ("REFUTES", 1), ("false. It is not true.", 1), ("true", 0), ("SUPPORTS", 0), ("?", 0)],
)
def test_verdicts(prediction, expected):
    assert choice_accuracy(prediction, CLAIM) == expected


def test_it_does_not_apply_without_options():
    assert choice_accuracy("A", Example(Question("q", "Which?"), ("A",))) is None
    assert choice_accuracy("A", Example(IRON.question, ())) is None
