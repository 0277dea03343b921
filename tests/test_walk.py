"""How long the way is from a question to its answer."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.walk import PACKAGE, walk

from askance.core.types import Question
from askance.text.answers import short_answer

SCRIPT = Path(__file__).parent.parent / "scripts" / "walk.py"
LENGTH = re.compile(r"(\d+) calls of (\d+) functions in (\d+) files; (\d+) functions hand on to another file")
MOST_FUNCTIONS, MOST_FILES, MOST_TURNS = 315, 38, 82
"""A few more than are counted: on another processor the model writes another text, whose way is another."""


def test_the_way_to_an_answer_does_not_grow():
    pytest.importorskip("xllamacpp")
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, SCRIPT],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        env=environment,
    )
    _, functions, files, turns = map(int, LENGTH.fullmatch(done.stdout.splitlines()[-1]).groups())
    assert functions <= MOST_FUNCTIONS
    assert files <= MOST_FILES
    assert turns <= MOST_TURNS


def test_functions_are_told_with_the_files_that_they_hand_on_to():
    asked = Question("q", "Where?", task="choice", options=("Pisa", "Bonn"))
    found = walk(lambda: short_answer("So the answer is Pisa.", asked))
    assert found.files[0] == "text/answers.py"
    assert found.stops[0].name == "short_answer"
    assert "text/options.py" in found.files
    assert {turn.file for turn in found.turns} >= {"text/answers.py"}
    assert str(found).endswith(found.summary)
