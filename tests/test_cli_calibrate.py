"""`askance calibrate` and `askance presets` as a user types them."""

import json
import tomllib

import pytest

from askance.models.scripted import Reply, ScriptedModel
from tests.evaluation.choose.test_calibrate import PROBABILITIES, reply


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    rows = [{"id": str(p), "question": f"Where is it, {p}?", "answers": ["Bonn"]} for p in PROBABILITIES]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    return f"jsonl:{path}"


def full_reply(key):
    made = reply("", key)
    return Reply(made) if isinstance(made, str) else made


@pytest.fixture
def model(monkeypatch):
    """`--model scripted` answers from the script whose right thresholds are known."""
    monkeypatch.setattr(ScriptedModel, "_reply", lambda self, shown, key: full_reply(key))


ARGUMENTS = ["--model", "scripted", "--method", "flare", "--searches", "1.5"]


def test_calibrate_prints_table_value_and_how_to_use_it(run, questions, model, sample_index, tmp_path):
    file = tmp_path / "mine.toml"
    code, out, err = run(
        "calibrate", "--dataset", questions, "--index", sample_index, *ARGUMENTS, "--out", file
    )
    assert code == 0
    text = " ".join(out.split())
    assert "search_below searches per question 95 % interval tokens" in text
    assert "for 1.5 searches per question with flare on scripted (95 % interval 0." in text
    value = tomllib.loads(file.read_text())["flare"]["search_below"]
    assert 0.45 <= value < 0.55
    assert f"use it: --set search_below={value}, or --preset {file}" in text
    assert "trial 1, search_below=0.8: 1.80 searches per question" in " ".join(err.split())
    assert "# model scripted; 10 questions of jsonl:" in file.read_text()


def test_the_result_as_json(run, questions, model, sample_index):
    code, out, _ = run("calibrate", "--dataset", questions, "--index", sample_index, *ARGUMENTS, "--json")
    assert code == 0
    shown = json.loads(out)
    assert shown["parameter"] == "search_below"
    assert 0.45 <= shown["value"] < 0.55
    assert set(shown["table"][0]) == {"value", "searches", "tokens", "score"}


def test_the_value_with_the_best_score(run, questions, model, sample_index, tmp_path):
    file = tmp_path / "mine.toml"
    words = ["calibrate", "--dataset", questions, "--index", sample_index, "--model", "scripted"]
    words += ["--method", "flare", "--metric", "f1"]
    code, out, _ = run(*words, "--out", file, columns=140)
    assert code == 0
    text = " ".join(out.split())
    assert "search_below score 95 % interval searches per question 95 % interval tokens" in text
    assert "for the best f1 with flare on scripted (95 % interval 0" in text
    assert "search_below=" in text
    value = tomllib.loads(file.read_text())["flare"]["search_below"]
    assert f"use it: --set search_below={value:g}, or --preset {file}" in text
    assert ": the best f1" in file.read_text()
    shown = json.loads(run(*words, "--json")[1])
    assert (shown["goal"], shown["value"]) == ("the best f1", value)
    assert set(shown["table"][0]) == {"value", "searches", "tokens", "score"}


def test_the_best_score_within_a_number_of_searches(run, questions, model, sample_index):
    words = ["calibrate", "--dataset", questions, "--index", sample_index, "--model", "scripted"]
    words += ["--method", "flare", "--metric", "f1", "--searches"]
    shown = json.loads(run(*words, "1.5", "--json")[1])
    (chosen,) = (row for row in shown["table"] if row["value"] == shown["value"])
    within = [row for row in shown["table"] if row["searches"]["mean"] <= 1.5]
    assert chosen in within
    assert chosen["score"]["mean"] == max(row["score"]["mean"] for row in within)
    assert "with at most 1.5 searches per question with flare" in " ".join(run(*words, "1.5")[1].split())
    code, out, _ = run(*words, "0.5")
    assert code == 0
    assert "every value tried makes more than 0.5 searches per question" in " ".join(out.split())


def test_a_number_out_of_reach_exits_with_1_and_writes_nothing(run, questions, model, sample_index, tmp_path):
    file = tmp_path / "mine.toml"
    words = [
        "--dataset",
        questions,
        "--index",
        sample_index,
        "--model",
        "scripted",
        "--searches",
        "0.5",
        "--method",
        "flare",
    ]
    code, out, _ = run("calibrate", *words, "--out", file)
    assert code == 1
    assert "0.5 searches per question are out of reach" in " ".join(out.split())
    assert not file.exists()
    code, out, _ = run("calibrate", *words, "--json")
    assert (code, json.loads(out)["value"]) == (1, None)


def test_failures_are_told(run, questions, sample_index, monkeypatch):
    def replies(self, shown, key):
        if key[1] == "0.95":
            raise RuntimeError("out of memory")
        return full_reply(key)

    monkeypatch.setattr(ScriptedModel, "_reply", replies)
    code, out, err = run("calibrate", "--dataset", questions, "--index", sample_index, *ARGUMENTS)
    assert code == 0
    assert "1 of 10 questions failed at least once, or have no score, and are not counted." in " ".join(
        out.split()
    )
    assert "failed: question 0.95 at search_below=0.8: " in " ".join(err.split())
    assert "out of memory" in err


def test_a_preset_gives_the_other_parameters(run, questions, model, sample_index, tmp_path):
    (tmp_path / "p.toml").write_text("[flare]\nsearch_first = false\nsearch_below = 0.5\n")
    code, out, _ = run(
        "calibrate", "--dataset", questions, "--index", sample_index, "--model", "scripted",
        "--method", "flare", "--searches", "0.5", "--preset", tmp_path / "p.toml", "--trials", "1", "--json",
    )  # fmt: skip
    assert code == 0
    assert [row["value"] for row in json.loads(out)["table"]] == [0.5]


def test_the_limit(run, questions, model, sample_index):
    words = ["--dataset", questions, "--index", sample_index, *ARGUMENTS, "--limit", "3", "--json"]
    assert json.loads(run("calibrate", *words)[1])["num_questions"] == 3


def test_what_no_value_tried_gave_is_told(run, questions, sample_index, monkeypatch):
    monkeypatch.setattr(
        ScriptedModel, "_reply", lambda self, shown, key: full_reply(("question", "0.5", *key[2:]))
    )
    words = ["--dataset", questions, "--index", sample_index, *ARGUMENTS]
    code, out, _ = run("calibrate", *words)
    assert code == 0
    shown = " ".join(out.split())
    assert "no value tried gave 1.5: it lies between 1.00 (search_below=0.4" in shown


def test_presets_are_listed(run):
    code, out, _ = run("presets")
    assert code == 0
    for word in ("bundled", "llama2-13b-chat/hotpotqa", "dragin_paper", "threshold=1.2, query_top=35"):
        assert word in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--dataset", "sampel"], "did you mean 'sample'"),
        (["--dataset", "jsonl:absent.jsonl"], "absent.jsonl"),
        (["--dataset", "sample", "--method", "single"], "single has no parameter"),
        (["--dataset", "sample", "--parameter", "passages"], "takes int"),
        (["--dataset", "sample", "--set", "passages=0"], "expected 1 or more"),
        (["--dataset", "sample", "--preset", "llama2-13b-chat/hotpotq"], "llama2-13b-chat/hotpotqa"),
        (["--dataset", "sample", "--preset", "absent.toml"], "can't read the preset absent.toml"),
        (["--dataset", "sample", "--out", "absent/p.toml"], "the folder absent does not exist"),
        (["--dataset", "sample"], "name an index"),
        (["--dataset", "sample", "--searches", "-1"], "--searches"),
        (["--dataset", "sample", "--metric", "f2"], "unknown metric 'f2'"),
        ([], "--dataset"),
    ],
)
def test_bad_input_exits_with_2_and_leaves_nothing(run, tmp_path, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    method = [] if "--method" in words else ["--method", "flare"]
    code, out, err = run("calibrate", "--model", "scripted", *method, *words)
    assert code == 2
    assert expected in " ".join(err.split())
    assert out == ""
    assert not list(tmp_path.iterdir())


def test_a_price_needs_a_metric(run, sample_index):
    code, _, told = run("calibrate", "--dataset", "sample", "--index", sample_index, "--price", "0.01")
    assert code == 2
    assert "--price 0.01 is given without --metric" in " ".join(told.split())
