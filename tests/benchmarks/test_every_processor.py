"""The tests under other settings: which environment they have, and what is printed."""

import os

from benchmarks.every_processor import main

TESTS = """
import os
import pathlib


def test_threads():
    assert os.environ.get("OMP_NUM_THREADS") != "4"


def test_home():
    assert "LC_ALL" not in os.environ or not list(pathlib.Path.home().iterdir())
"""


def test_each_setting_has_its_environment_and_a_failure_is_named_and_is_the_exit_code(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    assert main(["--settings", "as it is", "no language, no home", "--", str(file)]) == 0
    assert capsys.readouterr().out.count("2 passed") == 2
    assert os.environ["OMP_NUM_THREADS"] == "4"
    assert main(["--settings", "4 threads", "--", str(file)]) == 1
    shown = capsys.readouterr().out
    assert "4 threads: 1 failed, 1 passed" in shown
    assert "test_some.py::test_threads" in shown
