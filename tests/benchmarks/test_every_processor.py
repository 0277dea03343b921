"""The tests under other settings: which environment they have, and what is printed."""

import os

import pytest
from benchmarks.every_processor import main

TESTS = """
import os
import pathlib


def test_threads():
    assert os.environ.get("OMP_NUM_THREADS") != "4"


def test_home():
    assert "LC_ALL" not in os.environ or not list(pathlib.Path.home().iterdir())
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.delenv("LC_ALL", raising=False)
    path = tmp_path / "test_some.py"
    path.write_text(TESTS)
    return str(path)


def test_each_setting_has_its_environment_and_no_other(file, monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert main(["--settings", "as it is", "no language, no home", "--", file]) == 0
    assert capsys.readouterr().out.count("2 passed") == 2
    assert os.environ["OMP_NUM_THREADS"] == "4"


def test_a_failure_is_named_and_is_the_exit_code(file, capsys):
    assert main(["--settings", "2 threads", "4 threads", "--", file]) == 1
    shown = capsys.readouterr().out
    assert "2 threads: 2 passed" in shown
    assert "4 threads: 1 failed, 1 passed" in shown
    assert "test_some.py::test_threads" in shown
