"""`askance calibrate` as a user types it."""

import json
import tomllib

import pytest

from askance.models.scripted import Reply, ScriptedModel
from tests.evaluation.choose.test_calibrate import PROBABILITIES, reply


@pytest.fixture
def calibrate(run, sample_index, tmp_path, monkeypatch):
    """Calibrate FLARE with a script whose right thresholds are known; return code, output and errors."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(p), "question": f"Where is it, {p}?", "answers": ["Bonn"]} for p in PROBABILITIES]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")

    def calibrate(words, replies=lambda key: reply("", key)):
        def scripted(self, shown, key):
            made = replies(key)
            return Reply(made) if isinstance(made, str) else made

        monkeypatch.setattr(ScriptedModel, "_reply", scripted)
        given = f"calibrate --dataset jsonl:q.jsonl --index {sample_index} --model scripted --method flare"
        code, out, err = run(f"{given} {words}", columns=140)
        return code, " ".join(out.split()), " ".join(err.split())

    return calibrate


def test_the_value_for_a_number_of_searches(calibrate, tmp_path):
    code, out, err = calibrate("--searches 1.5 --out mine.toml")
    value = tomllib.loads((tmp_path / "mine.toml").read_text())["flare"]["search_below"]
    assert (code, 0.45 <= value < 0.55) == (0, True)
    assert "search_below searches per question 95 % interval tokens" in out
    assert "for 1.5 searches per question with flare on scripted (95 % interval 0." in out
    assert f"use it: --set search_below={value}, or --preset mine.toml" in out
    assert "trial 1, search_below=0.8: 1.80 searches per question" in err
    assert "# model scripted; 10 questions of jsonl:" in (tmp_path / "mine.toml").read_text()
    shown = json.loads(calibrate("--searches 1.5 --json")[1])
    assert (shown["parameter"], shown["value"]) == ("search_below", value)
    assert set(shown["table"][0]) == {"value", "searches", "tokens", "score"}
    assert json.loads(calibrate("--searches 1.5 --json --limit 3")[1])["num_questions"] == 3


def test_the_value_with_the_best_score(calibrate, tmp_path):
    code, out, _ = calibrate("--metric f1 --out mine.toml")
    value = tomllib.loads((tmp_path / "mine.toml").read_text())["flare"]["search_below"]
    assert code == 0
    assert "search_below score 95 % interval searches per question 95 % interval tokens" in out
    assert "for the best f1 with flare on scripted (95 % interval 0" in out
    assert f"use it: --set search_below={value:g}, or --preset mine.toml" in out
    assert ": the best f1" in (tmp_path / "mine.toml").read_text()
    shown = json.loads(calibrate("--metric f1 --json")[1])
    assert (shown["goal"], shown["value"]) == ("the best f1", value)


def test_the_best_score_within_a_number_of_searches(calibrate):
    shown = json.loads(calibrate("--metric f1 --searches 1.5 --json")[1])
    (chosen,) = (row for row in shown["table"] if row["value"] == shown["value"])
    within = [row for row in shown["table"] if row["searches"]["mean"] <= 1.5]
    assert chosen in within
    assert chosen["score"]["mean"] == max(row["score"]["mean"] for row in within)
    assert "with at most 1.5 searches per question with flare" in calibrate("--metric f1 --searches 1.5")[1]
    code, out, _ = calibrate("--metric f1 --searches 0.5")
    assert (code, "every value tried makes more than 0.5 searches per question" in out) == (0, True)


def test_a_number_out_of_reach_exits_with_1_and_writes_nothing(calibrate, tmp_path):
    code, out, _ = calibrate("--searches 0.5 --out mine.toml")
    assert (code, "0.5 searches per question are out of reach" in out) == (1, True)
    assert not (tmp_path / "mine.toml").exists()
    code, out, _ = calibrate("--searches 0.5 --json")
    assert (code, json.loads(out)["value"]) == (1, None)


def test_failures_and_gaps_between_values_are_reported(calibrate):
    def failing(key):
        if key[1] == "0.95":
            raise RuntimeError("out of memory")
        return reply("", key)

    code, out, err = calibrate("--searches 1.5", failing)
    assert code == 0
    assert "1 of 10 questions failed at least once, or have no score, and are not counted." in out
    assert "failed: question 0.95 at search_below=0.8: " in err
    assert "out of memory" in err
    code, out, _ = calibrate("--searches 1.5", lambda key: reply("", ("question", "0.5", *key[2:])))
    assert (code, "no value tried gave 1.5: it lies between 1.00 (search_below=0.4" in out) == (0, True)


def test_a_preset_gives_the_other_parameters(calibrate, tmp_path):
    (tmp_path / "p.toml").write_text("[flare]\nsearch_first = false\nsearch_below = 0.5\n")
    code, out, _ = calibrate("--searches 0.5 --preset p.toml --trials 1 --json")
    assert (code, [row["value"] for row in json.loads(out)["table"]]) == (0, [0.5])
