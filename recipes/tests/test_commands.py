"""The recipes as they are called in a checkout."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from studies.shared import GateRow, check_gate

from askance.core.errors import InputError
from recipes import bundled_reader
from recipes.reader.__main__ import main
from recipes.reader.data_mix import RecipeSettings

ROOT = Path(__file__).parents[2]
FILES = ROOT / "tests" / "evaluation" / "datasets" / "files"


def test_a_recipe_tells_its_options_and_takes_its_own_shares():
    command = [sys.executable, "-m", "recipes.bundled_reader", "--help"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert "--out" in told.stdout
    with pytest.raises(InputError, match="unknown parameter 'juding'"):
        main(["--dataset", "sample", "--out", "absent", "--set", "juding=2"])


def test_the_settings_of_the_one_that_ships_are_those_of_its_card():
    """The card names the settings of that time; it is older than `precision` and `packing_window`."""
    card = (ROOT / "src/askance/models/reader/README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+) \| ([^|]+) \|$", card, flags=re.MULTILINE))
    settings = bundled_reader.SETTINGS
    known = {field.name: f"{getattr(settings, field.name)}" for field in fields(RecipeSettings)}
    known["learning_rate"] = f"{settings.peak_learning_rate}"
    told = {name: value for name, value in rows.items() if name in known}
    assert known.keys() - told.keys() == {"precision", "packing_window"}
    assert told == {name: known[name] for name in told}


def test_the_one_that_ships_leaves_out_the_articles_that_are_measured(tmp_path):
    def article(title):
        answer = {"text": "Arno", "answer_start": 15}
        asked = {"id": title, "question": "Where?", "answers": [answer], "is_impossible": False}
        return {"title": title, "paragraphs": [{"context": "It lies on the Arno.", "qas": [asked]}]}

    squad = tmp_path / "squad.json"
    squad.write_text(json.dumps({"data": [*map(article, ("Normans", "Pisa", "Steam_engine"))]}))
    found = bundled_reader.examples(FILES / "2wikimultihopqa.json", FILES / "strategyqa.json", squad)
    assert [each.supporting_titles for each in found["squad2"]] == [("Pisa",)]
    assert all(found[name] for name in ("2wikimultihopqa", "strategyqa"))


def test_a_gate_prints_every_condition_and_exits_with_1_if_one_is_missed(capsys):
    faster, smaller = GateRow("faster", "2 s", False), GateRow("smaller", "3 MB", True)
    check_gate([smaller])
    with pytest.raises(SystemExit) as stop:
        check_gate([faster, smaller])
    assert stop.value.code == 1
    check_gate([faster], exits=False)
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["met: smaller: 3 MB", "missed: faster: 2 s", "met: smaller: 3 MB", "missed: faster: 2 s"]
