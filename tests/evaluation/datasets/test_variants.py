"""Records of real files in which something is missing, out of order, there twice, or of another type.

`files/variants.jsonl` has most of them: the content of a file, or its lines, and the examples it becomes.
"""

import json

import pytest

from askance.core.records import rows
from askance.evaluation.datasets.example import SupportingFacts
from tests.evaluation.datasets.rows import read_as, row, write
from tests.evaluation.datasets.test_files import FILES, read

CASES = [json.loads(line) for line in (FILES / "variants.jsonl").read_text(encoding="utf-8").splitlines()]
HOTPOT = {"_id": "a", "answer": "Po", "question": "?", "supporting_facts": [["Bonn", 0]], "type": "bridge"}
ALIASES = (
    {"Q_id": "Q4", "aliases": ["the Trave", "Trave", " "], "demonyms": ["Travian"]},
    {"Q_id": "Q4", "aliases": ["River Trave"], "demonyms": []},
)


def iirc(answer, text="", *context):
    asked = {"question": "Who?", "context": list(context), "answer": answer}
    return [{"title": "Bonn", "text": text, "questions": [asked]}]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_a_variant(tmp_path, case):
    content = tuple(case["lines"]) if "lines" in case else case["content"]
    assert [row(example) for example in read_as(case["file"], content, tmp_path)] == case["expected"]


@pytest.mark.parametrize(
    ("beside", "option"), [(True, ""), (False, "?aliases={folder}/other/id_aliases.json")]
)
def test_aliases_of_2wikimultihopqa_beside_it_or_named(tmp_path, beside, option):
    (tmp_path / "other").mkdir()
    write(tmp_path / ("" if beside else "other") / "id_aliases.json", ALIASES)
    content = [HOTPOT | {"answer": "Trave", "answer_id": "Q4"}, HOTPOT | {"_id": "b", "answer_id": None}]
    examples = read_as(f"2wikimultihopqa:a.json{option.format(folder=tmp_path)}", content, tmp_path)
    assert [example.golds for example in examples] == [("Trave", "the Trave", "River Trave"), ("Po",)]


@pytest.mark.parametrize(
    ("text", "start", "evidence"),
    [
        ("Rhine", 17, ["Bonn lies at the Rhine."]),
        ("Rhine", 49, ["A ship on the Rhine is old."]),
        ("Rhine", 20, ["Bonn lies at the Rhine."]),  # does not begin there
        ("Rhine", -13, ["Bonn lies at the Rhine."]),
        ("Rhine", 900, ["Bonn lies at the Rhine."]),
        ("Rhine", None, ["Bonn lies at the Rhine."]),
        ("old. A ship", 30, ["It is old.", "A ship on the Rhine is old."]),
        ("Danube", 17, ["Bonn lies at the Rhine. It is old. A ship on the Rhine is old."]),  # is nowhere
    ],
)
@pytest.mark.parametrize("has_text", [True, False])
def test_the_evidence_of_squad_is_the_sentences_with_the_first_answer(
    tmp_path, text, start, evidence, has_text
):
    context = "Bonn lies at the Rhine. It is old. A ship on the Rhine is old." if has_text else " "
    answer = {"text": text} if start is None else {"text": text, "answer_start": start}
    asked = {"id": "a", "question": "Who?", "answers": [answer, {"text": "ship", "answer_start": 37}]}
    content = {"data": [{"title": "Old_Bonn", "paragraphs": [{"context": context, "qas": [asked]}]}]}
    (example,) = read_as("squad2:a.json", content, tmp_path)
    assert row(example).get("paragraphs") == ([["Old Bonn", context, *evidence]] if has_text else None)


@pytest.mark.parametrize(
    ("context", "paragraphs"),
    [
        ([{"passage": "main", "text": "It is new."}], [["Bonn", "A city.", "A city."]]),
        ([{"passage": "main"}, {"passage": "rhine"}], [["Bonn", "A city.", "A city."]]),
        ([], [["Bonn", "A city."]]),
        (
            [{"passage": "rhine", "text": "Long."}, {"passage": "rhine", "text": " Long."}],
            [["Bonn", "A city."], ["rhine", "Long.", "Long."]],
        ),
    ],
)
def test_pieces_of_iirc_that_are_nowhere_or_twice(tmp_path, context, paragraphs):
    for text, expected in (("A city.", paragraphs), ("", [each for each in paragraphs if each[0] != "Bonn"])):
        content = iirc({"type": "value", "answer_value": "7"}, text, *context)
        (example,) = read_as("iirc:a.json", content, tmp_path)
        assert row(example).get("paragraphs", []) == expected


def test_the_sample_has_no_supporting_facts_and_skipping_is_the_default_of_squad():
    assert {example.supporting_facts for example in read("sample")} == {SupportingFacts()}
    assert read("squad2:squad2.json?unanswerable=skip") == read("squad2:squad2.json")


@pytest.mark.parametrize("indent", [None, 1])
def test_rows_of_an_object_on_one_line_or_many(tmp_path, indent):
    path = write(tmp_path / "a.json", json.dumps({"data": [{"a": 1}, {"a": 2}]}, indent=indent))
    assert list(rows(path, "data")) == [("record 1", {"a": 1}), ("record 2", {"a": 2})]
    write(path, ({"a": 1}, {"a": 2}))
    assert list(rows(path, "data")) == [("line 1", {"a": 1}), ("line 2", {"a": 2})]
