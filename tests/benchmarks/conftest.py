"""Options that the measuring scripts share, over three questions and the scripted model; a HotpotQA file."""

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


@pytest.fixture
def hotpot(tmp_path):
    """A file of HotpotQA with three questions, each with a supporting paragraph and a distractor."""
    towns = [("Pisa", "Arno"), ("Ulm", "Danube"), ("Bonn", "Rhine")]
    rows = [
        {
            "_id": f"q{number}",
            "question": f"Which river flows through {town}?",
            "answer": river,
            "supporting_facts": [[town, 0]],
            "context": [[town, [f"{town} lies on the {river}."]], ["Rome", ["Rome is old."]]],
        }
        for number, (town, river) in enumerate(towns)
    ]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(rows))
    return f"hotpotqa:{path}"
