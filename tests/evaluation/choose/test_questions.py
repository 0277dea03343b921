"""Questions that a model wrote: which are kept, and why others are not."""

import pytest

from askance.core.types import Passage
from askance.evaluation.choose.questions import parse_question

PASSAGE = Passage("p", "Kallsund", "The lighthouse of Kallsund was built of granite in 1871 by Jens Holm.")


def parse(question, answer):
    return parse_question(f" {question}\nAnswer: {answer}", PASSAGE)


def test_a_question_with_an_answer_from_the_passage_is_kept():
    kept = parse("In which year was the lighthouse built?", "1871.")
    assert (kept.question, kept.answer, kept.rejected) == (
        "In which year was the lighthouse built?",
        "1871",
        "",
    )


def test_the_short_answer_is_read_out_of_a_sentence():
    answer = "The lighthouse was built by Jens Holm. So the answer is Jens Holm."
    assert parse("Who built the lighthouse of granite?", answer).answer == "Jens Holm"


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        ("Who was it?", "Jens Holm", "unclear"),
        ("Who built the lighthouse of the passage?", "Jens Holm", "unclear"),
        ("How tall is the lighthouse of Kallsund?", "90 feet", "not in the passage"),
        ("In which year was the lighthouse built?", "187", "not in the passage"),
        ("Which lighthouse was built by Jens Holm?", "Jens Holm", "in the question"),
        ("Where is the lighthouse of granite?", "Kallsund", "the title"),
        ("Who built the lighthouse of granite?", "", "long answer"),
    ],
)
def test_a_question_that_fails_a_check_has_the_reason(question, answer, reason):
    passage = Passage("p", PASSAGE.title, f"{PASSAGE.text} {'It is very old. ' * 9}")
    if reason == "long answer":
        answer = passage.text[:-1]
    assert reason in parse_question(f"{question}\nAnswer: {answer}", passage).rejected


def test_text_without_an_answer_is_no_question():
    assert "without a question" in parse_question("I can't do that.", PASSAGE).rejected


def test_scripts_without_spaces_have_no_borders_of_words():
    passage = Passage("p", "灯塔", "灯塔建于一八七一年，由花岗岩砌成。")
    assert parse_question("灯塔用什么材料砌成？\nAnswer: 花岗岩", passage).rejected == ""
