"""Questions that a model wrote: which are kept, and why others are not."""

import pytest

from askance.core.types import Passage
from askance.evaluation.choose.questions import parse_question

OLD = "It is very old. " * 9
TEXT = f"The lighthouse of Kallsund was built of granite in 1871 by Jens Holm. {OLD}"
PASSAGE = Passage("p", "Kallsund", TEXT)
YEAR, BUILDER = "In which year was the lighthouse built?", "Who built the lighthouse of granite?"


@pytest.mark.parametrize(
    ("written", "answer", "rejected"),
    [
        (f" {YEAR}\nAnswer: 1871.", "1871", ""),
        (f"{BUILDER}\nAnswer: Jens Holm built it. So the answer is Jens Holm.", "Jens Holm", ""),
        ("Who was it?\nAnswer: Jens Holm", "Jens Holm", "unclear"),
        ("Who built the lighthouse of the passage?\nAnswer: Jens Holm", "Jens Holm", "unclear"),
        ("How tall is the lighthouse of Kallsund?\nAnswer: 90 feet", "90 feet", "not in the passage"),
        (f"{YEAR}\nAnswer: 187", "187", "not in the passage"),
        ("Which lighthouse was built by Jens Holm?\nAnswer: Jens Holm", "Jens Holm", "in the question"),
        ("Where is the lighthouse of granite?\nAnswer: Kallsund", "Kallsund", "the title"),
        (f"{BUILDER}\nAnswer: {TEXT}", TEXT.strip().rstrip("."), "long answer"),
        ("I can't do that.", "", "without a question"),
    ],
)
def test_a_question_is_kept_or_has_the_reason_why_not(written, answer, rejected):
    parsed = parse_question(written, PASSAGE)
    assert parsed.answer == answer
    assert rejected in parsed.rejected
    assert bool(rejected) == bool(parsed.rejected)


def test_scripts_without_spaces_have_no_borders_of_words():
    passage = Passage("p", "灯塔", "灯塔建于一八七一年，由花岗岩砌成。")
    assert parse_question("灯塔用什么材料砌成？\nAnswer: 花岗岩", passage).rejected == ""
