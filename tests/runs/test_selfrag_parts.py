"""The parts of Self-RAG one at a time, on the scripted model: its runs, and what is held against what."""

import json

from runs.selfrag_parts import PAIRS, compared, lines_table, main, methods_of, spoken

from askance.eval.recorded_run import read_run
from tests.eval.hand_made import record, written
from tests.runs.counting import Counting


def test_every_part_is_held_against_the_whole(options, tmp_path, capsys):
    main([*options, "--set", "max_tokens=16", "--passages", "2"])
    runs = tmp_path / "out" / "runs" / "jsonl" / "scripted"
    found = {folder.name: read_run(folder).settings.knobs for folder in runs.iterdir()}
    assert {name: knobs["passages"] for name, knobs in found.items()} == {
        "single": "2", "selfrag": "2", "without_support": "2", "first_passage_only": "1",
        "hard_constraint": "2", "rejecting_segments": "2",
    }  # fmt: skip
    assert {knobs["max_tokens"] for knobs in found.values()} == {"16"}
    assert found["without_support"]["w_sup"] == "0"
    hard, rejecting = found["hard_constraint"], found["rejecting_segments"]
    names = ("threshold", "reject_unsupported", "reject_irrelevant")
    assert [hard[name] for name in names] == ["None", "False", "False"], "it changes when it searches"
    assert [rejecting[name] for name in names] == ["0.2", "True", "True"]
    content = json.loads((tmp_path / "out" / "parts.json").read_text())
    lines = [(line["run"], line["base"]) for line in content["lines"] if line["metric"] == "f1"]
    assert lines == list(PAIRS)
    assert content["runs"].keys() == {f"jsonl/{name}" for name in found}
    assert content["runs"]["jsonl/single"]["costs"]["searches"] == 1
    printed = capsys.readouterr().out
    assert "| jsonl | hard constraint − selfrag | f1 |" in printed
    main([*options, "--set", "max_tokens=16", "--passages", "2"])
    assert capsys.readouterr().out.split("won")[1] == printed.split("won")[1], "nothing is asked again"


def test_a_cache_keeps_the_calls_that_parts_share(options, tmp_path, monkeypatch):
    monkeypatch.setattr("runs.grids.load_models", lambda specs: {"answer": Counting()})
    given = [*options, "--set", "max_tokens=8", "mode=always", "--passages", "2"]
    calls = []
    for further in (["--out", str(tmp_path / "apart")], ["--cache", str(tmp_path / "calls")]):
        before = Counting.calls
        main([*given, *further])
        calls.append(Counting.calls - before)
    apart, shared = (
        json.loads((tmp_path / name / "parts.json").read_text())["lines"] for name in ("apart", "out")
    )
    assert shared == apart
    assert calls[1] < calls[0] / 2


def test_differences_are_paired_and_signed(tmp_path):
    folders = {"single": [0.0, 0.0], "selfrag": [1.0, 0.0], "hard_constraint": [0.0, 0.0]}
    runs = {
        spoken(name): written(
            tmp_path / name, [record(at, scores={"f1": f1}) for at, f1 in enumerate(scores, start=1)]
        )
        for name, scores in folders.items()
    }
    lines = [line for line in compared("sample", runs) if line.metric == "f1"]
    gains = {(line.run, line.base): (line.difference.mean, line.won, line.lost) for line in lines}
    assert gains == {("selfrag", "single"): (0.5, 1, 0), ("hard constraint", "selfrag"): (-0.5, 0, 1)}
    assert lines_table(lines[:1]).splitlines()[-1].startswith("| sample | selfrag − single | f1 | +0.500 (")


def test_the_baseline_answers_at_the_same_length():
    methods = methods_of(4, {})
    assert methods["single"].set == {"passages": 4, "max_tokens": 100}
    assert methods["first_passage_only"].set == {"passages": 1}
