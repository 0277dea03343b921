"""The tests under other settings: which are run, counted, printed and stored."""

import json
import os

import pytest
from benchmarks.every_processor import SETTINGS, main

from benchmarks import every_processor

TESTS = """
import os
import pathlib

import pytest


def test_threads():
    assert os.environ.get("OMP_NUM_THREADS") != "4"


def test_torch():
    if "ATEN_CPU_CAPABILITY" not in os.environ:
        pytest.skip("nothing is asked for")


def test_home():
    assert "LC_ALL" not in os.environ or not list(pathlib.Path.home().iterdir())
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setattr(every_processor, "_taken", lambda environment: {"threads": "?"})
    path = tmp_path / "test_some.py"
    path.write_text(TESTS)
    return path


def ran(file, *names):
    out = file.with_name("out.json")
    try:
        main(["--out", str(out), "--settings", *names, "--", str(file)])
        code = 0
    except SystemExit as stopped:
        code = stopped.code
    return code, json.loads(out.read_text())["outcomes"]


def test_each_setting_has_its_environment_and_no_other(file, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    code, (plain, torch, surroundings) = ran(file, "as it is", "torch: avx2", "no language, no home")
    assert code == 0
    assert (plain["num_passed"], plain["num_skipped"], plain["failures"]) == (2, 1, [])
    assert (torch["num_passed"], torch["num_skipped"]) == (3, 0)
    assert torch["environment"] == {"ATEN_CPU_CAPABILITY": "avx2"}
    assert surroundings["exit_code"] == 0
    assert os.environ["OMP_NUM_THREADS"] == "4"


def test_a_failure_is_named_and_is_the_exit_code(file, capsys):
    code, (two, four) = ran(file, "2 threads", "4 threads")
    assert code == 1
    assert (two["exit_code"], four["exit_code"]) == (0, 1)
    (failure,) = four["failures"]
    assert failure.endswith("test_some::test_threads"), "the folders above are those that the tests share"
    shown = capsys.readouterr().out
    assert "| 2 threads | ? | ? | ? | 2 | 1 | 0 |" in shown
    assert "| 4 threads | ? | ? | ? | 1 | 1 | 1 |" in shown
    assert "test_some::test_threads" in shown


def test_tests_that_can_not_be_collected_are_a_failure(file, capsys):
    file.write_text("import nothing_of_this_name")
    code, (outcome,) = ran(file, "as it is")
    assert code == 1
    assert outcome["failures"]
    assert outcome["num_passed"] == 0


def test_no_tests_are_a_failure(file, capsys):
    file.write_text("")
    code, (outcome,) = ran(file, "as it is")
    assert (code, outcome["failures"]) == (1, [])
    assert "| broken off |" in capsys.readouterr().out


def test_an_unknown_setting_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path / "out.json"), "--settings", "torch: avx3"])
    assert stopped.value.code == 2
    assert "did you mean 'torch: avx2'" in capsys.readouterr().err


def test_what_the_processor_lacks_is_not_run(file, monkeypatch, capsys):
    monkeypatch.setattr(every_processor, "_taken", lambda environment: {"torch": "AVX2"})
    code, outcomes = ran(file, "torch: avx2", "torch: avx512", "newest")
    assert code == 0
    assert [each["setting"] for each in outcomes] == ["torch: avx2"]
    assert "| newest | not run: this processor has avx2, not avx512 |" in capsys.readouterr().out


def test_what_a_setting_comes_to_is_asked_of_the_libraries():
    given = every_processor._environment(SETTINGS["oldest"], home=None)
    found = every_processor._taken(given)
    assert found["threads"] == "1"
    assert found["torch"] in ("DEFAULT", "NO AVX")
    assert "SSE4.1" in found["oneDNN"] or found["oneDNN"] == "none"
