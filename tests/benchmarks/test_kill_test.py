"""The kill test on the scripted model: what it finds, and what it must find."""

import json

import pytest

from benchmarks import kill_test
from tests.evaluation.hand_made import record

NUM_QUESTIONS = 60


@pytest.fixture
def options(tmp_path):
    """Enough quick questions that a run is not over before it is killed."""
    rows = [
        {"question": f"Which river flows through town {number}?", "answers": ["Rhine"]}
        for number in range(NUM_QUESTIONS)
    ]
    file = tmp_path / "rivers.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return ["--dataset", f"jsonl:{file}", "--method", "closed_book", "--out", str(tmp_path / "out")]


def written(tmp_path):
    return json.loads((tmp_path / "out" / "kill_test.json").read_text(encoding="utf-8"))


def test_a_run_that_is_killed_is_the_same_as_one_left_alone(options, tmp_path, capsys):
    kill_test.main([*options, "--kills", "2", "--in-flight", "1"])
    content = written(tmp_path)
    assert content["is_well"]
    assert content["differences"]["num_questions"] == NUM_QUESTIONS
    assert content["differences"]["ids"] == []
    first, second, end = content["stops"]
    assert first["num_before"] == 0 < first["wanted"] <= first["num_finished"] == second["num_before"]
    assert second["wanted"] <= second["num_finished"] == end["num_before"] < NUM_QUESTIONS
    assert (end["wanted"], end["num_finished"]) == (None, NUM_QUESTIONS)
    assert [stop["lost"] + stop["twice"] for stop in content["stops"]] == [[], [], []]
    assert f"in both runs once: {NUM_QUESTIONS}" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        kill_test.main(options)
    assert "is there already" in capsys.readouterr().err


def test_a_difference_is_told_and_fails(options, tmp_path, monkeypatch, capsys):
    honest = kill_test._command

    def shorter(options, folder):
        return [*honest(options, folder), "--set", f"max_tokens={1 if folder.name == 'killed' else 16}"]

    monkeypatch.setattr(kill_test, "_command", shorter)
    with pytest.raises(SystemExit) as stopped:
        kill_test.main([*options, "--kills", "0", "--sample", "3"])
    assert stopped.value.code == 1
    content = written(tmp_path)
    assert not content["is_well"]
    assert len(content["differences"]["differing"]["generated tokens"]) == 3


def test_a_run_that_ends_before_a_kill_is_an_error(options, capfd):
    with pytest.raises(SystemExit, match="2"):
        kill_test.main([*options, "--set", "max_tokenz=3"])
    told = capfd.readouterr().err
    assert "unknown parameter 'max_tokenz'" in told
    assert "ended with exit code 2: see its message above" in told


def test_what_is_lost():
    before = [record(1), record(2), record(3)]
    assert kill_test.lost(before, [*before, record(4)]) == ()
    assert kill_test.lost(before, before[:1]) == ("q2", "q3")
    assert kill_test.lost(before, [record(1), record(2, text="Another."), record(3)]) == ("q2",)
    assert kill_test.lost([], before) == ()
