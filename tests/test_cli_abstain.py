"""What the commands show of the confidence of answers."""

import json

import pytest

from askance.models.scripted import ScriptedPairScorer

REPLY = "Ingmar Bergman was born in Uppsala in 1918. So the answer is Uppsala."
QUESTION = "Where was Ingmar Bergman born?"


@pytest.fixture
def asked(run, sample_index, tmp_path, monkeypatch):
    """Asks with a cross-encoder that gives every passage a logit."""
    path = tmp_path / "replies.jsonl"
    path.write_text(4 * (json.dumps({"text": f" {REPLY}"}) + "\n"))

    def ask(logit, *words, command="ask", question=(QUESTION,)):
        scorer = ScriptedPairScorer(lambda *pair: logit)
        monkeypatch.setattr("askance.configuration.build.load_reranker", lambda spec: scorer)
        model = ("--model", f"scripted:{path}", "--method", "single", "--index", sample_index)
        return run(command, *question, *model, *words)

    return ask


def test_the_screen_shows_the_verdict_with_its_reason_and_the_unsupported_text(asked):
    code, out, _ = asked(-9.0, "--abstain-below", "0.4")
    assert code == 0
    assert "Not in the documents: no passage supports it: best support 0." in out
    assert f"unsupported: {REPLY}" in " ".join(out.split())
    assert "[1]" not in out


def test_the_screen_shows_the_confidence_of_an_answer_that_stands(asked):
    _, out, _ = asked(9.0, "--abstain-below", "0.4")
    assert "Not in the documents" not in out
    assert "confidence 0.9" in out or "confidence 1.00" in out
    assert "[1]" in out


def test_json_has_the_confidence_and_the_reason(asked):
    told = json.loads(asked(-9.0, "--abstain-below", "auto", "--json")[1])
    assert told["confidence"] < 0.4
    assert told["abstained"].startswith("no passage supports it")
    assert (told["short_answer"], told["citations"]) == ("Uppsala", [])
    assert told["decisions"][-1]["name"] == "confidence"
    plain = json.loads(asked(-9.0, "--json")[1])
    assert (plain["confidence"], plain["abstained"]) == (None, "")


@pytest.mark.parametrize("below", ["1.5", "-1", "nan", "sometimes"])
def test_a_threshold_that_is_no_probability_is_named(asked, below):
    code, _, err = asked(0.0, f"--abstain-below={below}")
    assert code == 2
    told = " ".join(err.split())
    assert f"--abstain-below: abstain_below='{below}': give a confidence from 0 to 1, or auto." in told


def test_strict_comes_from_the_environment_too(asked, monkeypatch):
    monkeypatch.setenv("ASKANCE_STRICT", "true")
    assert json.loads(asked(0.0, "--json")[1])["answer"] == REPLY
    monkeypatch.setenv("ASKANCE_STRICT", "perhaps")
    code, _, err = asked(0.0, "--json")
    assert code == 2
    assert "ASKANCE_STRICT" in asked(0.0)[2] + err + asked(0.0, "--json")[1]


def test_a_run_keeps_confidence_and_verdict_and_reports_them(asked, tmp_path):
    words = ("--dataset", "sample", "--limit", "2", "--abstain-below", "0.4", "--out", tmp_path / "run")
    code, out, _ = asked(-9.0, *words, command="eval", question=())
    assert code == 0
    assert "confidence: abstained 2 · answerable answered 0.000" in out
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    for record in map(json.loads, lines):
        assert record["confidence"] < 0.4
        assert record["abstained"]
        assert record["scores"]["f1"] in (0.0, None)
        assert record["scores_if_answered"].keys() == record["scores"].keys()
