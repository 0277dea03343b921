"""How long the way is from the command to a ready engine, and from there to the last token."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.walk import files, walk

from askance.core.types import Question
from askance.text.answers import short_answer

MOST = [(73, 49), (95, 46), (168, 66)]
"""The most functions and files of the first part, of the second, and of both; they rise only for a feature
that a user sees. A few more functions than are counted are allowed, since the model writes another text on
another processor."""
LENGTH = re.compile(r": (\d+) functions hand on to another file · (\d+) files$", re.MULTILINE)


def test_the_way_from_the_command_to_the_last_token_does_not_grow():
    pytest.importorskip("xllamacpp")
    command = [sys.executable, "-W", "error", Path(__file__).parents[1] / "scripts" / "walk.py"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    lengths = [(int(functions), int(files)) for functions, files in LENGTH.findall(printed)]
    assert len(lengths) == len(MOST)
    for (functions, num_files), (most_functions, most_files) in zip(lengths, MOST, strict=True):
        assert 0 < functions <= most_functions
        assert 0 < num_files <= most_files


def test_a_walk_has_two_parts_and_names_the_files_that_are_handed_on_to():
    question = Question("q", "Where?", task="choice", options=("Pisa", "Bonn"))
    start = ("text/options.py", "named_option")
    before, after = walk(lambda: short_answer("So the answer is Pisa.", question), start)
    assert [*before] == [("text/answers.py", "short_answer")]
    assert files(after) == ["text/options.py"]
    assert [(name, *calls.hands_on_to) for (_, name), calls in after.items() if calls.hands_on_to] == [
        ("short_answer", "text/options.py")
    ]
