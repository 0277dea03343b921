"""Records of real files in which something is missing, out of order, there twice, or of another type.

`files/variants.jsonl` has most of them: the content of a file, or its lines, and the examples it becomes.
"""

import json
import re

import pytest

from askance.configuration.evaluation import read_dataset
from askance.core.errors import DatasetError, MissingExtra
from askance.core.installing import install_line
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


@pytest.fixture
def hub(tmp_path):
    """Return a folder as the Hugging Face hub has it, with two splits, and one with two sets of splits."""
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    for name, ids in (
        ("one/data/train-00000-of-00001", "x"),
        ("one/data/validation-00000-of-00002", "ab"),
        ("one/data/validation-00001-of-00002", "c"),
        ("two/rc/validation/0000", "a"),
        ("two/web/validation/0000", "b"),
    ):
        answers = [{"text": ["Ada"] if id != "b" else [], "answer_start": [0]} for id in ids]
        table = pyarrow.table({"id": list(ids), "question": ["Who?"] * len(ids), "answers": answers})
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, path)
    return tmp_path


@pytest.mark.parametrize(
    ("spec", "outcome"),
    [
        ("parquet:one?split=validation", "abc"),
        ("parquet:one/data?split=train", "x"),
        ("parquet:one/data/train-00000-of-00001.parquet", "x"),
        ("jsonl:one/data/train-00000-of-00001.parquet", "x"),
        ("squad2:one/data/validation-00000-of-00002.parquet?unanswerable=keep", "ab"),
        ("parquet:two?split=rc/validation", "a"),
        ("parquet:one", "several splits, but one/data/train, one/data/validation: name the split"),
        ("parquet:one?split=test", "no split 'test', but one/data/train, one/data/validation: name"),
        ("parquet:two?split=validation", "several splits, but two/rc/validation, two/web/validation: name"),
        ("parquet:empty", "no rows, but no file that ends in .parquet"),
        ("parquet:text.parquet", "can't read .*text.parquet: .*magic bytes.* Fetch or write it again"),
        ("parquet:none.parquet", "can't read .*none.parquet: No such file or directory. Fetch or"),
    ],
)
def test_parquet(hub, spec, outcome):
    write(hub / "text.parquet", "question,answers\n")
    (hub / "empty").mkdir()
    spec = spec.replace(":", f":{hub}/")
    if " " not in outcome:
        assert "".join(example.question.id for example in read_dataset(spec)) == outcome
        return
    with pytest.raises(DatasetError, match=outcome):
        read_dataset(spec)


def test_parquet_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setattr("askance.core.records.find_spec", lambda package: None)
    with pytest.raises(MissingExtra, match=f"'pyarrow'.*{re.escape(install_line('parquet'))}"):
        read_dataset(f"parquet:{tmp_path}")


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
