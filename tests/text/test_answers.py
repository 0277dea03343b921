import pytest

from askance.core.types import Question
from askance.text.answers import has_answer, short_answer

OPEN = Question("q", "Which river?")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is by the sea. So the answer is Arno.", "Arno"),
        ("The Answer is: Arno. The Arno is long.", "Arno"),
        ("The final answer is Arno.", "Arno"),
        ("So the answer is Dr. Strange. He is a doctor.", "Dr. Strange"),
        ("Their answer is a shrug.", ""),
        ('So the answer is "St. Mary Mead".', "St. Mary Mead"),
        ("So the answer is 3.5 million.", "3.5 million"),
        ("So the answer is Arno\nQuestion: more", "Arno"),
        ("So the answer is J. K. Rowling. She wrote.", "J. K. Rowling"),
        ("Nothing was said.", ""),
        ("So the answer is", ""),
        ("", ""),
    ],
)
def test_open(text, expected):
    assert short_answer(text, OPEN) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So the answer is no.", "no"),
        ("No doubt it is. So the answer is Yes.", "yes"),
        ("True, they are.", "yes"),
        ("Nobody knows.", ""),
    ],
)
def test_yes_or_no(text, expected):
    assert short_answer(text, Question("q", "Is it?", task="yes_no")) == expected


def test_choice_gives_the_option_as_written():
    question = Question("q", "Which?", task="choice", options=("Arno", "Po"))
    assert short_answer("The Arno is long. So the answer is po.", question) == "Po"
    assert short_answer("I can't say.", question) == ""


def test_choice_takes_whole_words_and_the_longer_option():
    question = Question("q", "Who?", task="choice", options=("Paris", "cat", "Paris Hilton"))
    assert short_answer("So the answer is Paris Hilton.", question) == "Paris Hilton"
    assert short_answer("It is education in Paris.", question) == "Paris"


def test_has_answer_needs_words_after_the_marker():
    assert has_answer("THE ANSWER IS Bonn.")
    assert not has_answer("the answer is ")
    assert not has_answer("The answering machine is on.")
