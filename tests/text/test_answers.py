"""Answers: what is stated, by our reading and by that of the authors, and which option a text names."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Question
from askance.evaluation.metrics.answers import exact_match, f1
from askance.text import options
from askance.text.answers import (
    AUTHORS_READINGS,
    answer_end,
    authors_short_answer,
    has_answer,
    normalise_answer,
    short_answer,
)
from askance.text.options import lettered, named_option

OPEN, YES_NO = Question("q", "Which river?"), Question("q", "Is it?", task="yes_no")
METALS = ("A: iron", "B: gold", "C: tin", "D: gold leaf")
CITIES = ("Arno", "Paris", "cat", "Paris Hilton", "Po")
METAL, CITY = (Question("q", "Which?", task="choice", options=each) for each in (METALS, CITIES))


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
    ("question", "text", "answer"),
    [
        (OPEN, "It is by the sea. So the answer is Arno.", "Arno"),
        (OPEN, "The Answer is: Arno. The Arno is long.", "Arno"),
        (OPEN, "The final answer is Arno.", "Arno"),
        (OPEN, "So the answer is Dr. Strange. He is a doctor.", "Dr. Strange"),
        (OPEN, "Their answer is a shrug.", ""),
        (OPEN, 'So the answer is "St. Mary Mead".', "St. Mary Mead"),
        (OPEN, "So the answer is 3.5 million.", "3.5 million"),
        (OPEN, "So the answer is Arno\nQuestion: more", "Arno"),
        (OPEN, "So the answer is J. K. Rowling. She wrote.", "J. K. Rowling"),
        (OPEN, "它流入东海。So the answer is 长江。然后结束。", "长江"),
        (OPEN, "The answering machine is on.", ""),
        (OPEN, "", ""),
        *[(OPEN, f"The answer is{nothing}", "") for nothing in ("", ".", " .", ": \x07", " \u200b.", "…")],
        (OPEN, "The answer is \u200b.\nSo the answer is Bonn.", "Bonn"),
        (YES_NO, "So the answer is no.", "no"),
        (YES_NO, "No doubt it is. So the answer is Yes.", "yes"),
        (YES_NO, "True, they are.", "yes"),
        (YES_NO, "Nobody knows.", ""),
        (CITY, "The Arno is long. So the answer is po.", "Po"),
        (CITY, "I can't say.", ""),
        (CITY, "So the answer is Paris Hilton.", "Paris Hilton"),
        (CITY, "It is education in Paris.", "Paris"),
        (METAL, "Iron rusts, B does not. So the answer is C.", "C: tin"),
        (METAL, "(D)", "D: gold leaf"),
        (METAL, "So the answer is A.", "A: iron"),
    ],
)
def test_the_short_answer_to_a_question(question, text, answer):
    assert short_answer(text, question) == answer
    if question is OPEN:
        assert has_answer(text) is (answer != "")


TWO_WIKI, IIRC, STRATEGY = (AUTHORS_READINGS[name] for name in ("2wikimultihopqa", "iirc", "strategyqa"))
ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<eos>", "<｜end▁of▁sentence｜>", "</s></s>")


@pytest.mark.parametrize(
    ("reading", "text", "answer"),
    [
        (None, "It rains. So the answer is Arno.", "Arno"),
        (None, "So the answer is Arno. The Arno is long.", "Arno. The Arno is long"),
        (None, "So the answer is: Arno", " Arno"),
        (None, "the answer isArno", "rno"),
        (None, "the answer is Arno, since the answer is Arno.", "Arno, since the answer is Arno"),
        (None, "So The Answer is Arno.", ""),
        (None, "So the answer is Arno.</s>", "Arno"),
        (None, "So the answer is Arno.<|eot_id|></s>\n", "Arno"),
        (None, "So the answer is Arno...", "Arno.."),
        (None, "So the answer is Arno.\nQuestion: Which sea?", "Arno"),
        (None, "So the answer is Arno. Note: the answer is Po.", "Arno"),
        (None, "So the answer is Arno#10000000Question:", "Arno"),
        (None, "Question: Which? So the answer is Arno.", "Arno"),
        (None, "Question: Which? Question: So the answer is Arno. Note: no", "Arno"),
        (None, " Question: the answer is Arno", "Arno"),  # texts are stripped before they are read
        (None, "It rains. Question: the answer is Arno", ""),
        (None, "So the answer is 7.\n</s>", "7.\n"),
        (None, "Nothing was said.", ""),
        (None, "So the answer is", ""),
        (None, "", ""),
        (IIRC, "So the answer is 7.\n</s>", "7"),
        (TWO_WIKI, " Nothing said.\nNote: no", "Nothing said."),
        (TWO_WIKI, "So the answer is Arno.", "Arno"),
        (TWO_WIKI, "So the answer is", ""),
        *[(TWO_WIKI, f"So the answer is Arno.{end}", "Arno") for end in ENDS],
        (STRATEGY, "So the answer is yes.", "yes"),
        (STRATEGY, "So the answer is Yes, it is.", "yes"),
        (STRATEGY, "So the answer is yesterday.", "yes"),
        (STRATEGY, "So the answer is maybe.", "no"),
        (STRATEGY, "So the answer is  yes", "no"),
        (STRATEGY, "the answer is", "no"),
        (STRATEGY, "Yes, they are.", ""),
        (STRATEGY, "So The answer is yes.", ""),
        (STRATEGY, "", ""),
    ],
)
def test_the_short_answer_as_the_authors_read_it(reading, text, answer):
    assert (authors_short_answer(text, reading) if reading else authors_short_answer(text)) == answer


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Beatles' song!", "beatles song"),
        ("An apple, a day\tin the Hague", "apple day in hague"),
        ("U.S.A", "usa"),
        ("A.B.", "ab"),
        ("a-b", "ab"),
        ("theatre", "theatre"),
        ("“The” Rhône – no.1", "“ ” rhône – no1"),
        ("The A!", ""),
        ("「长江」。", "长江"),
        # The form of a character does not matter: composed or not, wide or not, of whichever script.
        ("Zu\u0308rich Ϊ\u0301", "zürich ΐ"),
        ("２０２３年 ﬁsh H₂O 10²", "2023年 fish h2o 10 2"),
        ("١٩٠٢ ۱۳۵۷ १९४७ ১৯৭১ ๒๕๖๓", "1902 1357 1947 1971 2563"),
        ("«Moscou» ¿Madrid? „Wien؟ ٣٫١٤ ライオン・キング", "moscou madrid wien 314 ライオンキング"),
        ("Vi\u00adenna می\u200cخواهم \u200fÖ´", "vienna میخواهم ö"),
    ],
)
def test_the_normal_form(text, normal):
    assert normalise_answer(text) == normal


@given(st.text())
def test_the_normal_form_of_a_normal_form_is_itself(text):
    once = normalise_answer(text)
    assert normalise_answer(once) == once


def test_answers_are_compared_by_character_where_there_are_no_spaces():
    assert exact_match("长江。", ["长江"]) == 1
    assert f1("长江水", ["长江"]) == f1("a1 b2 c3", ["a1 b2"])


VERDICTS = ("true", "false")


@pytest.mark.parametrize(
    ("choices", "text", "option"),
    [
        *[(METALS, text, "A: iron") for text in ("A", "(A)", "A.", "A: iron", "I choose A.")],
        *[(METALS, text, "B: gold") for text in (" b)\n", "b", "B. It shines.", "Gold, I think.")],
        *[(METALS, text, "C: tin") for text in ("Option C is right.", "It must be (C).", "Tin or B?")],
        (METALS, "gold leaf", "D: gold leaf"),
        # The article, words and abbreviations are no letters.
        (METALS, "A metal such as tin", "C: tin"),
        *[(METALS, text, "") for text in ("Because a b is small", "B-52 and D.C. and C's", "Golden irons")],
        *[(METALS, text, "") for text in ("b is small", "E", "")],
        # Verdicts have the names of FEVER, but not among other options.
        *[(VERDICTS, text, "true") for text in ("True", "The evidence supports it.")],
        *[(VERDICTS, text, "false") for text in ("false, since nobody saw it", "It is false.", "REFUTES")],
        *[(VERDICTS, text, "") for text in ("untrue", "Neither")],
        ((*VERDICTS, "unknown"), "It supports B", ""),
        # Options are lettered only if all are.
        *[(choices, "B.", "") for choices in (("A: iron", "gold"), ("A: iron", "A: gold"), ("iron",))],
        *[(choices, "B.", "") for choices in (("a: iron", "b: gold"), ("A:", "B:"), ())],
    ],
)
def test_the_option_that_a_text_names(choices, text, option):
    assert named_option(text, choices) == option
    assert bool(lettered(choices)) is (choices == METALS)


@given(st.text(max_size=30))
def test_what_is_named_is_an_option_or_nothing(text):
    assert named_option(text, METALS) in (*METALS, "")


def test_worked_examples_of_options():
    results = doctest.testmod(options)
    assert (results.attempted, results.failed) == (2, 0)
