"""The quality of a model's judgements: the questions it is asked, and the numbers from its replies."""

import asyncio
import json
from dataclasses import replace

import pytest
from benchmarks.judging_quality import area, ask, compare, main, of_articles, refusals, relevance

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts
from askance.methods.airrag.prompts import REFUSAL
from askance.models.scripted import ScriptedModel
from tests.tolerances import near

PISA = Paragraph("Pisa", "Pisa lies on the Arno.", ((0, 22),))
ANSWERABLE = Example(
    Question("a", "Which river?"), ("Arno",), ("Pisa",), "answerable", 1, SupportingFacts((PISA,))
)
UNANSWERABLE = replace(
    ANSWERABLE, question=Question("u", "Which sea?"), golds=("noanswer",), kind="unanswerable"
)


@pytest.mark.parametrize(
    ("example", "reply", "row"),
    [
        (ANSWERABLE, "Arno", {"is_answerable": True, "is_refused": False, "answer": "Arno"}),
        (UNANSWERABLE, REFUSAL, {"is_answerable": False, "is_refused": True, "answer": REFUSAL.rstrip(".")}),
    ],
)
def test_a_question_is_put_with_its_own_paragraph(example, reply, row):
    seen = []

    def script(prompt, key):
        seen.append(prompt)
        return reply

    assert asyncio.run(ask(ScriptedModel(script), example)) == row
    assert "Pisa: Pisa lies on the Arno." in seen[0]


def test_balanced_accuracy_counts_both_kinds_alike():
    answered = [{"is_answerable": True, "is_refused": False}] * 3 + [
        {"is_answerable": True, "is_refused": True}
    ]
    refused = [{"is_answerable": False, "is_refused": True}]
    found = refusals(answered + refused)
    assert found["mean"] == near((0.75 + 1) / 2)
    assert found["parts"] == {"answerable": 0.75, "unanswerable": 1.0}
    assert found["num_questions"] == 5


def test_the_area_is_the_share_of_pairs_in_order():
    assert area([2.0, 1.0], [0.0]) == 1
    assert area([2.0, 0.0], [1.0]) == 0.5
    assert area([1.0], [1.0]) == 0.5
    rows = [
        {"supporting": [2.0], "distractors": [1.0, 3.0]},
        {"supporting": [9.0], "distractors": [8.0]},
        {"supporting": [1.0], "distractors": []},
    ]
    found = relevance(rows)
    assert (found["mean"], found["num_questions"]) == (0.75, 2)
    assert found["parts"]["all pairs"] == near(4.5 / 9)


def test_all_paragraphs_of_a_question_are_scored():
    example = replace(
        ANSWERABLE, supporting_facts=SupportingFacts((PISA, Paragraph("Rome", "Rome is old."), PISA))
    )
    row = asyncio.run(compare(ScriptedModel(), example))
    assert (len(row["supporting"]), len(row["distractors"])) == (2, 1)


def test_articles_are_chosen_by_title():
    other = replace(ANSWERABLE, supporting_titles=("Rome",))
    assert of_articles([ANSWERABLE, other], ["Rome"]) == [other]
    assert of_articles([ANSWERABLE, other], []) == [ANSWERABLE, other]


def test_a_measurement_goes_on_where_it_was(tmp_path, capsys):
    paragraph = {
        "context": PISA.text,
        "qas": [
            {"id": "a", "question": "Which river?", "answers": [{"text": "Arno", "answer_start": 17}]},
            {"id": "u", "question": "Which sea?", "answers": [], "is_impossible": True},
        ],
    }
    file = tmp_path / "dev.json"
    file.write_text(json.dumps({"data": [{"title": "Pisa", "paragraphs": [paragraph]}]}))
    given = [
        "--model",
        "scripted",
        "--unanswerable",
        f"squad2:{file}?unanswerable=keep",
        "--out",
        str(tmp_path / "out"),
    ]
    main(given)
    printed = capsys.readouterr().out
    assert "| scripted | refusals |" in printed
    kept = tmp_path / "out" / "scripted" / "refusals" / "questions.jsonl"
    before = kept.read_bytes()
    assert before.count(b"\n") == 3
    main(given)
    assert capsys.readouterr().out == printed
    assert kept.read_bytes() == before
