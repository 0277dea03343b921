"""Options that the measuring scripts share, over three questions and the scripted model."""

import json

import pytest

QUESTIONS = [
    {"id": "a", "question": "Which moon was discovered earlier, Iapetus or Triton?", "answers": ["Iapetus"],
     "type": "comparison", "supporting": ["Iapetus", "Triton"]},
    {"id": "b", "question": "Which river flows through Bonn?", "answers": ["Rhine"], "type": "bridge"},
    {"id": "c", "question": "Which river flows through Cairo?", "answers": ["Nile"], "type": "bridge"},
]  # fmt: skip


@pytest.fixture
def questions(tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS), encoding="utf-8")
    return f"jsonl:{file}"


@pytest.fixture
def options(questions, tmp_path, sample_index):
    return [
        "--dataset", questions, "--index", str(sample_index), "--model", "scripted",
        "--sample", "3", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
