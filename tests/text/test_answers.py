import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Question
from askance.text.answers import (
    AUTHORS_READINGS,
    answer_end,
    authors_short_answer,
    has_answer,
    normalise_answer,
    short_answer,
)

OPEN = Question("q", "Which river?")


@pytest.mark.parametrize(
    "text",
    [
        "It is by the sea. So the answer is Arno.| It is long.",
        "So the answer is Arno|\nNote: it is long.",
        "So the answer is: . The answer is Arno.| The answer is Po.",
        "It is by the sea.\nThe answer is|",
    ],
)
def test_where_what_is_stated_ends(text):
    assert answer_end(text.replace("|", "")) == text.index("|")


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rains. So the answer is Arno.", "Arno"),
        ("So the answer is Arno. The Arno is long.", "Arno. The Arno is long"),
        ("So the answer is: Arno", " Arno"),
        ("the answer isArno", "rno"),
        ("the answer is Arno, since the answer is Arno.", "Arno, since the answer is Arno"),
        ("So The Answer is Arno.", ""),
        ("So the answer is Arno.</s>", "Arno"),
        ("So the answer is Arno.<|eot_id|></s>\n", "Arno"),
        ("So the answer is Arno...", "Arno.."),
        ("So the answer is Arno.\nQuestion: Which sea?", "Arno"),
        ("So the answer is Arno. Note: the answer is Po.", "Arno"),
        ("So the answer is Arno#10000000Question:", "Arno"),
        ("Question: Which? So the answer is Arno.", "Arno"),
        ("Question: Which? Question: So the answer is Arno. Note: no", "Arno"),
        (" Question: the answer is Arno", "Arno"),  # texts are stripped before they are read
        ("It rains. Question: the answer is Arno", ""),
        ("Nothing was said.", ""),
        ("So the answer is", ""),
        ("", ""),
    ],
)
def test_open_as_the_authors_read_it(text, expected):
    assert authors_short_answer(text) == expected


def test_what_differs_by_dataset():
    two_wiki, iirc = AUTHORS_READINGS["2wikimultihopqa"], AUTHORS_READINGS["iirc"]
    assert authors_short_answer(" Nothing said.\nNote: no", two_wiki) == "Nothing said."
    assert authors_short_answer("So the answer is Arno.", two_wiki) == "Arno"
    assert authors_short_answer("So the answer is", two_wiki) == ""
    assert authors_short_answer("So the answer is 7.\n</s>", iirc) == "7"
    for end in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<eos>", "<｜end▁of▁sentence｜>", "</s></s>"):
        assert authors_short_answer(f"So the answer is Arno.{end}", two_wiki) == "Arno"
    assert authors_short_answer("So the answer is 7.\n</s>") == "7.\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So the answer is yes.", "yes"),
        ("So the answer is Yes, it is.", "yes"),
        ("So the answer is yesterday.", "yes"),
        ("So the answer is maybe.", "no"),
        ("So the answer is  yes", "no"),
        ("the answer is", "no"),
        ("Yes, they are.", ""),
        ("So The answer is yes.", ""),
        ("", ""),
    ],
)
def test_yes_or_no_as_the_authors_read_it(text, expected):
    assert authors_short_answer(text, AUTHORS_READINGS["strategyqa"]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Beatles' song!", "beatles song"),
        ("An apple, a day\tin the Hague", "apple day in hague"),
        ("U.S.A", "usa"),
        ("A.B.", "ab"),
        ("a-b", "ab"),
        ("theatre", "theatre"),
        ("“The” Rhône – no.1", "“ ” rhône – no1"),
        ("The A!", ""),
    ],
)
def test_the_normal_form(text, expected):
    assert normalise_answer(text) == expected


@given(st.text())
def test_the_normal_form_of_a_normal_form_is_itself(text):
    once = normalise_answer(text)
    assert normalise_answer(once) == once


@pytest.mark.parametrize("nothing", [".", " .", ": \x07", " \u200b.", "…"])
def test_what_says_nothing_states_no_answer(nothing):
    text = f"The answer is{nothing}"
    assert (short_answer(text, Question("q", "Which?")), has_answer(text)) == ("", False)
    text += "\nSo the answer is Bonn."
    assert (short_answer(text, Question("q", "Which?")), has_answer(text)) == ("Bonn", True)
