"""Rows from datasets with supporting facts: what each says about its passage, and what is learned of it."""

from collections import Counter
from dataclasses import replace

import pytest
from lab.tests.training.relevance.test_pairs import ANIMALS, COLOURS, example

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts, whole
from askance_lab.training.selfrag.gold_rows import gold_rows
from askance_lab.training.selfrag.rows import json_row, parse_output, read_rows
from askance_lab.training.selfrag.settings import SelfRagSettings

EXAMPLES = [example(number, title=f"Animals {number % 2}") for number in range(10)]


def rows_of(examples=EXAMPLES, **settings):
    given = {"negatives": 0, "unsupported": 0.0, "unanswerable": 0.0, "in_question": 0.0}
    return gold_rows("animals", examples, SelfRagSettings(**(given | settings)))


def tokens_of(row):
    return [token for token in parse_output(row.output).tokens if "paragraph" not in token]


def passage_of(row):
    return row.output.partition("<paragraph>")[2].partition("</paragraph>")[0]


RIGHT = "[Retrieval] [Relevant] [Fully supported] [Utility:5]"
OTHER = "[Retrieval] [Irrelevant] [Utility:5]"
WRONG = "[Retrieval] [Relevant] [No support / Contradictory] [Utility:1]"
NONE = "[No Retrieval] [Utility:5]"


@pytest.mark.parametrize(
    ("shares", "counts"),
    [
        ({}, {RIGHT: 10}),
        ({"negatives": 2}, {RIGHT: 10, OTHER: 20}),
        ({"unsupported": 1.0}, {RIGHT: 10, WRONG: 10}),
        ({"in_question": 1.0}, {RIGHT: 10, NONE: 10}),
    ],
)
def test_the_tokens_of_a_row_say_what_its_passage_and_its_answer_are(shares, counts):
    rows = rows_of(**shares)
    assert Counter(" ".join(tokens_of(row)) for row in rows) == counts
    for row in rows:
        number = int(row.id.partition(".")[0].removeprefix("q"))
        kind, answer = " ".join(tokens_of(row)), COLOURS[number]
        assert (ANIMALS[number] in passage_of(row)) == (kind in (RIGHT, WRONG))
        assert (row.learned, row.dataset) == ("tokens" if kind == WRONG else "all", "animals")
        if kind == WRONG:
            (wrong,) = (colour for colour in COLOURS if f"[Relevant]{colour}[No support" in row.output)
            assert wrong != answer
            assert COLOURS.index(wrong) % 2 == number % 2, "of a question about the same document"
        else:
            parsed = parse_output(row.output, learned=row.learned)
            assert answer in [piece.span.text for piece in parsed.spans if piece.weight]
        if kind == NONE:
            assert f"It is {answer}" in row.instruction
            assert row.instruction.endswith(EXAMPLES[number].question.text)


def test_an_unanswerable_question_makes_its_passage_irrelevant():
    unanswerable = replace(example(9, title="Animals 1", kind="unanswerable"), golds=("noanswer",))
    rows = [
        row for row in rows_of([*EXAMPLES[:9], unanswerable], unanswerable=1.0) if row.id.startswith("q9")
    ]
    assert [tokens_of(row) for row in rows] == [["[Retrieval]", "[Irrelevant]", "[Utility:1]"]]
    assert "noanswer" not in rows[0].output
    assert rows[0].learned == "tokens"


def test_several_hops_are_several_segments():
    paragraphs = tuple(
        Paragraph(title, text, whole(text))
        for title, text in (("Film", "Ann made it."), ("Ann", "Ann is Swiss."))
    )
    other = Paragraph("Bob", "Bob is Danish.")
    two = Example(
        Question("t", "From where is the maker of the film?"), ("Switzerland",), ("Film", "Ann"), "", 2,
        SupportingFacts((*paragraphs, other)),
    )  # fmt: skip
    (row,) = rows_of([two])
    assert tokens_of(row) == ["[Retrieval]", "[Relevant]", "[Fully supported]"] * 2 + ["[Utility:5]"]
    assert row.output.endswith(
        "[Relevant]Ann is Swiss. So the answer is Switzerland.[Fully supported][Utility:5]"
    )


def test_a_passage_that_lacks_the_answer_supports_nothing():
    """Evidence that begins at the end of one passage goes on in the next one."""
    filler = "Nothing is said of it here. " * 16
    text = f"{filler}The cat, which nobody in the whole town has seen again since that day in May, is red."
    paragraph = Paragraph("Cats", text, ((len(filler), len(text)),))
    single = Example(
        Question("s", "Which colour is the cat?"), ("red",), ("Cats",), "answerable", 1,
        SupportingFacts((paragraph,)),
    )  # fmt: skip
    for row in rows_of([single]):
        assert "red" in passage_of(row)
    other = Paragraph("Dogs", "Dogs are blue.", whole("Dogs are blue."))
    two = replace(single, hops=2, supporting_facts=SupportingFacts((other, paragraph)))
    for row in rows_of([two]):
        assert "red" in passage_of(row) or "Dogs" in passage_of(row)
        assert all(quoted in row.output for quoted in ("Dogs are blue.", "is red."))


def test_the_rows_depend_on_the_seed_and_can_be_written_and_read(tmp_path):
    shares = {"negatives": 1, "unsupported": 0.5, "in_question": 0.5}
    rows = rows_of(**shares)
    assert rows == rows_of(**shares)
    assert rows != rows_of(**shares, seed=1)
    assert len({row.id for row in rows}) == len(rows)
    (tmp_path / "rows.jsonl").write_text("".join(map(json_row, rows)), encoding="utf-8")
    assert read_rows(tmp_path / "rows.jsonl") == rows


@pytest.mark.parametrize("gold", ["no", "yes"])
def test_a_passage_may_have_the_words_yes_and_no(gold):
    texts = ("Ann lives in the north.", "Bob lives in the south.", "No one lives in the north, yes, no one.")
    marked = tuple(Paragraph(f"P{n}", text, whole(text) if n < 2 else ()) for n, text in enumerate(texts))
    asked = Question("y", "Do Ann and Bob live in the north?")
    both = Example(asked, (gold,), ("P0",), "", 2, SupportingFacts(marked))
    assert len([row for row in rows_of([both], negatives=3) if "[Irrelevant]" in row.output]) == 1
