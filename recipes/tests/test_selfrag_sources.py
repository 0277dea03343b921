"""The sources of Self-RAG's training data: what is taken of each format, and what is left out."""

import json

import pytest

from askance.core.errors import AskanceError
from askance_lab.training.selfrag.rows import read_rows
from recipes.selfrag.sources import SOURCES, is_english, main, read_source

LONG, GERMAN = "word " * 501, "eins zwei drei vier acht neun zehn elf zwei drei"


def conversation(*turns, id="1"):
    return {"id": id, "messages": [{"role": role, "content": content} for role, content in turns]}


def choices(*labels, key="B"):
    options = [{"text": f"option {label}", "label": label} for label in labels]
    return {"id": "q", "question": {"stem": "Which?", "choices": options}, "answerKey": key}


FILES = {
    "sharegpt": [
        conversation(("user", "Hello"), ("assistant", "Good day \n"), id="a"),
        conversation(("system", "Be kind."), ("user", "Hello"), ("assistant", "Hi"), id="b"),
        conversation(("user", "Hello"), ("assistant", "Hi"), ("user", "Bye"), id="c"),
        conversation(("user", "Hello"), ("assistant", " "), id="d"),
        conversation(("user", LONG), ("assistant", "Hi"), id="e"),
        conversation(("user", "Hello"), ("assistant", GERMAN), id="f"),
    ],
    "nq": [
        {"id": "1", "input": "who wrote it", "output": [{}, {"answer": "Greene"}, {"answer": "x"}]},
        {"id": "2", "input": "who", "output": [{"provenance": []}]},
    ],
    "fever": [
        {"id": "1", "input": "It rains.", "output": [{"answer": "SUPPORTS"}]},
        {"id": "2", "input": "It snows.", "output": [{"answer": "REFUTES"}]},
        {"id": "3", "input": "It hails.", "output": [{"answer": "NOT ENOUGH INFO"}]},
    ],
    "arc_easy": [choices(*"1234", key="2"), choices(*"ABC"), choices(*"ABCD", key="E")],
    "asqa": {
        "train": {"7": {"ambiguous_question": "When?", "annotations": [{"long_answer": "Then, or later."}]}}
    },
}  # fmt: skip


@pytest.fixture
def files(tmp_path):
    for name, records in FILES.items():
        lines = [records] if isinstance(records, dict) else records
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def read(files, name):
    rows, left_out = read_source(name, files / f"{name}.jsonl")
    return {row.id: row for row in rows}, left_out


def test_the_authors_took_145619_rows_and_english_ones_alone():
    assert len(SOURCES) == 11
    assert sum(source.rows for source in SOURCES.values()) == 145_619
    assert is_english("The cat is on the mat and it will be there for a while.")
    assert not is_english("Die Katze sitzt auf der Matte und bleibt dort eine ganze Weile.")
    assert is_english("def f(x): return x")


def test_conversations(files):
    rows, left_out = read(files, "sharegpt")
    assert {id: (row.instruction, row.output) for id, row in rows.items()} == {
        "sharegpt_a": ("Hello", "Good day"),
        "sharegpt_b": ("Hello", "Hi"),
    }
    assert left_out == {
        "not one question and one answer": 1,
        "no question or no answer": 1,
        "more than 500 words": 1,
        "not English": 1,
    }


def test_questions_of_kilt(files):
    rows, left_out = read(files, "nq")
    assert [(row.instruction, row.output, row.dataset) for row in rows.values()] == [
        ("who wrote it", "Greene", "nq")
    ]
    assert left_out == {"no question or no answer": 1}
    claims, left_out = read(files, "fever")
    assert {row.output for row in claims.values()} == {"true", "false"}
    assert all("## Input:\n\nIt " in row.instruction for row in claims.values())
    assert left_out == {"an answer other than SUPPORTS or REFUTES": 1}


def test_questions_with_options(files):
    rows, left_out = read(files, "arc_easy")
    (row,) = rows.values()
    assert row.instruction.endswith("Which?\nA: option 1\nB: option 2\nC: option 3\nD: option 4")
    assert row.output == "B"
    assert left_out == {"not 4 options with one answer": 2}


def test_long_answers(files):
    (row,) = read(files, "asqa")[0].values()
    assert (row.id, row.output) == ("asqa_7", "Then, or later.")


def test_the_command(files, capsys):
    words = ["--source", f"nq={files / 'nq.jsonl'}", "--source", f"asqa={files / 'asqa.jsonl'}"]
    main([*words, "--out", str(files / "answers.jsonl")])
    assert [row.id for row in read_rows(files / "answers.jsonl")] == ["nq_1", "asqa_7"]
    assert "no question or no answer 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "expected"),
    [("nqq=FILE", "write NAME=FILE"), ("nq", "write NAME=FILE"), ("asqa=nq.jsonl", "train")],
)
def test_bad_input_writes_nothing(files, source, expected):
    name, _, file = source.partition("=")
    given = f"{name}={files / file}" if file else name
    with pytest.raises(AskanceError, match=expected):
        main(["--source", given, "--out", str(files / "answers.jsonl")])
    assert not (files / "answers.jsonl").exists()
