"""A file of HotpotQA."""

import json

import pytest


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
