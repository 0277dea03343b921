"""A proxy's attention held against the model's own, on the scripted model."""

import argparse
import asyncio
import json
from pathlib import Path

import pytest
from runs.agreement import OWN, doubtful
from runs.proxy_agreement import cell_of, judge_one, main

from askance.eval.cell import look_up
from askance.models.scripted import ScriptedModel
from askance.wire import Engine


def rows(tmp_path):
    lines = (tmp_path / "out" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[1:]]


def results(tmp_path):
    return json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))


def test_the_own_verdicts_are_those_of_the_run(questions, sample_index):
    named = argparse.Namespace(
        dataset=questions, index=sample_index, model="scripted", sample=1, prompts="own", threshold=0.5
    )
    ready = look_up(cell_of(named))
    engine = Engine(ready.method, {"answer": ScriptedModel()}, ready.retriever)
    (example,) = ready.questions.values()
    row = asyncio.run(judge_one(engine, example, {"other": ScriptedModel()}))
    assert row["error"] == ""
    result = engine.ask(example.question)
    judged = [each for each in result.trace.decisions if each.words]
    assert len(judged) == len(row["sentences"]) > 0
    for decision, sentence in zip(judged, row["sentences"], strict=True):
        own = sentence[OWN]
        hits = [word for word in decision.words if word.is_hit]
        at = doubtful(own, 0.5)
        assert (at is None) == (not hits)
        assert set(own["scores"]) | {0.0} == {word.value for word in decision.words} | {0.0}
        if decision.query:
            assert own["queries"][at] == decision.query
        assert sentence["other"]["words"] == own["words"]


def test_proxies_are_compared_and_the_measurement_goes_on(options, tmp_path, capsys):
    arguments = [*options, "--proxy", "scripted"]
    main([*arguments, "--sample", "2"])
    first = rows(tmp_path)
    assert len(first) == 2
    main(arguments)
    assert len(rows(tmp_path)) == 3
    assert rows(tmp_path)[:2] == first
    found = results(tmp_path)
    own_twice, matched = found["results"]
    assert (own_twice["proxy"], matched["proxy"], found["num_questions"]) == ("scripted", "scripted", 3)
    assert own_twice["num_sentences"] == sum(len(row["sentences"]) for row in rows(tmp_path)) > 0
    assert matched["proxy_searches"] == matched["own_searches"]
    kept = (tmp_path / "out" / "questions.jsonl").stat().st_mtime_ns
    main(arguments)
    assert (tmp_path / "out" / "questions.jsonl").stat().st_mtime_ns == kept, "nothing is judged again"
    assert "| scripted |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "told"),
    [(["--prompts", "hotpotqa"], "was begun with method"), (["--threshold", "3"], "was begun with method")],
)
def test_other_settings_are_refused(options, tmp_path, capsys, changed, told):
    arguments = [*options, "--sample", "1", "--proxy", "scripted"]
    main(arguments)
    before = rows(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, *changed])
    assert told in capsys.readouterr().err
    assert rows(tmp_path) == before


def test_a_failure_is_kept_and_counted(options, tmp_path):
    script = tmp_path / "one.jsonl"
    script.write_text(json.dumps({"text": " It is the Rhine."}), encoding="utf-8")
    main([*options, "--model", f"scripted:{script}", "--proxy", "scripted"])
    errors = [row["error"] for row in rows(tmp_path)]
    assert results(tmp_path)["failures"] == sum(map(bool, errors)) > 0
    assert "replies" in next(filter(None, errors))
    assert Path(tmp_path / "out" / "results.json").exists()
