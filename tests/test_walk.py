"""How long the way is from the command to a ready engine, and from there to the last token."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.walk import FOLDER, walk

from askance.core.types import Question
from askance.text.answers import short_answer

MOST = [(82, 57), (99, 46), (181, 74)]
"""The bounds of functions and files: of the first part, of the second, and of both. A few more functions than are
counted, since another processor may write another text. Bounds only fall."""
LENGTH = re.compile(r": (\d+) functions hand on to another file · (\d+) files$", re.MULTILINE)
ROOT = Path(__file__).parents[1]


def test_the_way_from_the_command_to_the_last_token_does_not_grow():
    pytest.importorskip("xllamacpp")
    environment = {**os.environ, "PYTHONPATH": str(Path(FOLDER).parent), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "scripts/walk.py"],
        capture_output=True,
        cwd=ROOT,
        encoding="utf-8",
        check=True,
        env=environment,
    )
    lengths = [(int(functions), int(files)) for functions, files in LENGTH.findall(done.stdout)]
    assert len(lengths) == len(MOST)
    for (functions, files), (most_functions, most_files) in zip(lengths, MOST, strict=True):
        assert functions <= most_functions
        assert files <= most_files


def test_a_walk_lists_functions_with_the_files_that_they_hand_on_to():
    question = Question("q", "Where?", task="choice", options=("Pisa", "Bonn"))
    starts = ("", "text/options.py:named_option")
    before, after = walk(lambda: short_answer("So the answer is Pisa.", question), starts)
    assert str(before) == "text/answers.py\n       1  short_answer"
    assert after.files == ["text/options.py"]
    assert [(turn.name, *turn.hands_on_to) for turn in after.turns] == [("short_answer", "text/options.py")]
