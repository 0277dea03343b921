"""`askance sweep`: runs of Self-RAG with other parameters, from recorded runs alone."""

import json
import random

import pytest

from askance.core.types import Scored
from askance.evaluation.run.recorded_run import read_run
from askance.models.scripted import Reply, ScriptedModel
from tests.evaluation.hand_made import record, written

SETTINGS = {"ask_short_answer": "false", "max_tokens": "6", "passages": "2"}
WORDS = "red green blue one two three four five six seven".split()
KEPT = ("id", "number", "golds", "text", "short", "cited_titles", "decisions", "scores", "source")


@pytest.fixture
def evaluate(run, sample_index, tmp_path, monkeypatch):
    """Evaluate Self-RAG on four sample questions, with a model that writes and judges at random by prompt."""

    def score(self, prompt_ids, option):
        return Scored(random.Random(f"{self.decode(prompt_ids)} {option}").uniform(-3, 0), 1)

    def reply(self, shown, key):
        return Reply(f" It is {random.Random(shown).choice(WORDS)}.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ScriptedModel, "_score", score)
    monkeypatch.setattr(ScriptedModel, "_reply", reply)

    def evaluate(out, *settings):
        values = SETTINGS | dict(each.split("=") for each in settings)
        given = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        common = ("--dataset", "sample", "--index", sample_index, "--limit", 4, "--model", "scripted")
        code, _, err = run("eval", "--method", "selfrag", *common, *given, "--out", out)
        assert code == 0, err
        return read_run(tmp_path / out)

    return evaluate


def kept(run):
    return [{name: getattr(each, name) for name in KEPT} for each in run.records]


def test_swept_weights_are_runs_like_those_of_a_model(run, evaluate, tmp_path):
    evaluate("recorded", "mode=always")
    code, out, err = run("sweep recorded --parameter w_sup --value 0 --value 9 --out swept", columns=200)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["w_sup=0", "w_sup=9"]
    for value in (0, 9):
        swept = read_run(tmp_path / "swept" / f"w_sup={value}")
        asked = evaluate(f"asked-{value}", "mode=always", f"w_sup={value}")
        assert kept(swept) == kept(asked)
        assert swept.settings.identity == asked.settings.identity
        assert swept.settings.config["parameters"]["w_sup"] == float(value)
        assert [each.usage.calls for each in swept.records] == [0, 0, 0, 0]
    assert kept(swept) != kept(read_run(tmp_path / "recorded")), "the weight matters here"
    assert run("compare recorded swept/w_sup=0 swept/w_sup=9")[0] == 0
    before = (tmp_path / "swept" / "w_sup=9" / "records.jsonl").read_bytes()
    assert run("sweep recorded --parameter w_sup --value 9 --out swept")[0] == 0
    assert (tmp_path / "swept" / "w_sup=9" / "records.jsonl").read_bytes() == before


def test_thresholds_need_a_run_that_searched_and_one_that_did_not(run, evaluate, tmp_path):
    always = evaluate("always", "threshold=0")
    code, _, err = run("sweep always --parameter threshold --value 1 --out alone", columns=300)
    assert (code, err.count("left out: threshold=1, ")) == (1, 4)
    assert "no run has an answer without a search" in err
    never = evaluate("never", "threshold=1")
    assert [each.usage.searches for run in (always, never) for each in run.records] == [1] * 4 + [0] * 4
    shares = sorted(
        each.numbers["share"]
        for record in always.records
        for each in always.trace(record)[:9]
        if getattr(each, "name", "") == "retrieve"
    )
    middle = (shares[1] + shares[2]) / 2
    command = f"sweep always never --parameter threshold --value 0 --value {middle} --value 1 --out swept"
    assert run(command)[0] == 0
    swept = read_run(tmp_path / "swept" / f"threshold={middle}")
    assert kept(swept) == kept(evaluate("asked", f"threshold={middle}"))
    assert sum(each.usage.searches for each in swept.records) == 2


def test_what_can_not_be_swept(run, evaluate, tmp_path):
    evaluate("long", "form=long", "max_segments=1")
    few = evaluate("few", "mode=always")
    evaluate("more", "mode=always", "passages=1")
    evaluate("unjudged", "mode=always", "w_sup=0")
    fields = {"method": "selfrag", "title": "selfrag", "parameters": dict(few.settings.parameters)}
    for name, more in {
        "absent": {"dataset": "jsonl:absent.jsonl"},
        "plugged": {"dataset": "os:getcwd"},
    }.items():
        written(tmp_path / name, [record(1)], **fields, **more)
    written(tmp_path / "baseline", [record(1)])
    (tmp_path / "other.jsonl").write_text(json.dumps({"id": "q01", "question": "Why?", "answers": ["Rhine"]}))
    for words, told in {
        "nothing": "nothing holds no run",
        "baseline": "the run baseline is of single, and only",
        "long": "only the short form of selfrag and selfrag_paper can be swept",
        "few more": "parameter passages: 2, now 1",
        "unjudged": "(mode=always, w_sup=0.0) did not judge what w_sup weighs",
        "few --value many": "expected float",
        "few --value=-1": "expected 0 or more",
        "few --dataset jsonl:other.jsonl": "is not the dataset's: name the file that the run used",
        "absent": "can't read absent.jsonl",
        "plugged": "'os:getcwd', which plugged names, is no part of askance",
    }.items():
        sweep = f"sweep {words} --parameter w_sup --value 1 --out swept"
        code, _, err = run(*sweep.split(), columns=1000)
        assert (code, told in err) == (2, True), err
        assert not (tmp_path / "swept").exists()
    code, _, err = run("sweep few --parameter w_sub --value 1 --out swept")
    assert (code, "did you mean 'w_sup'" in err) == (2, True)
    code, _, err = run("sweep few --parameter w_sup --out swept")
    assert (code, "--value" in err) == (2, True)
    code, _, err = run("sweep few --parameter threshold --value 1 --out swept")
    assert (code, "(mode=always, threshold=0.2) did not judge what threshold weighs" in err) == (2, True)
