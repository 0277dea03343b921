"""AirRAG in waves and one call at a time, on the scripted model."""

import json
from dataclasses import replace

from runs.airrag_waves import line_of, main, outcome, share_reused, table

from askance.ask import Result
from askance.core.trace import Trace
from askance.core.types import Answer, Usage

SHORT = ("rollouts=4", "query_tokens=8", "answer_tokens=8", "summary_tokens=8")


def test_both_ways_are_timed_and_the_measurement_goes_on(options, tmp_path, capsys):
    given = [*options, "--set", *SHORT, "--repeats", "2"]
    main([*given, "--sample", "1"])
    capsys.readouterr()
    main([*given, "--sample", "2"])
    printed, told = capsys.readouterr()
    assert told.count("times as long one by one") == 1, "the first is kept"
    assert printed.splitlines()[-1].startswith("| median of 2 |")
    rows = [json.loads(line) for line in (tmp_path / "out" / "questions.jsonl").read_text().splitlines()[1:]]
    assert [len(row["seconds"]["one by one"]) for row in rows] == [2, 2]
    assert all(row["is_same"] and row["steps"] >= 4 and row["calls"] >= 4 for row in rows)
    content = json.loads((tmp_path / "out" / "waves.json").read_text())
    assert {line["question"] for line in content["lines"]} == {*(row["id"] for row in rows), "median of 2"}
    assert "samples=3" in content["method"]
    assert "wave=4" in content["method"]


def row(id, together, alone, reused, is_same=True):
    return {
        "id": id, "seconds": {"together": together, "one by one": alone},
        "reused": {"together": reused, "one by one": [0.0]}, "calls": 9, "steps": 5, "is_same": is_same,
    }  # fmt: skip


def test_ratios_are_those_of_medians():
    rows = [row("a", [1.0, 2.0, 9.0], [4.0, 6.0, 5.0], [0.5, 0.7, 0.6]),
            row("b", [4.0], [8.0], [0.4], is_same=False)]  # fmt: skip
    assert (line_of(rows[:1]).ratio, line_of(rows[:1]).reused) == (2.5, 0.6)
    both = line_of(rows)
    assert (both.seconds_in_waves, both.seconds_one_by_one, both.reused, both.is_same) == (
        3.0,
        6.5,
        0.5,
        False,
    )
    assert table([both]).splitlines()[-1] == (
        "| median of 2 | 3.00 | 6.50 | 2.17 | 50.0% | 0.0% | 9 | 5 | no |"
    )


def test_an_outcome_is_the_answer_and_the_tree_with_its_visits():
    trace, other = Trace(), Trace()
    for each, value in ((trace, 0.5), (other, 0.5000001)):
        each.expand("0.1", "say", "None", numbers={"visits": 2.0, "value": value, "votes": 3.0})
    one = Result(Answer("Rhine"), Usage(), trace)
    assert outcome(one) == outcome(replace(one, trace=other)), "numbers may differ in their last digits"
    assert outcome(one) != outcome(replace(one, answer=Answer("Elbe")))
    other.events[0] = replace(other.events[0], numbers={"visits": 1.0, "votes": 3.0})
    assert outcome(one) != outcome(replace(one, trace=other))


def test_a_different_answer_is_told_and_is_the_exit_code(options, tmp_path, monkeypatch, capsys):
    numbers = iter(range(100))
    monkeypatch.setattr("runs.airrag_waves.outcome", lambda result: next(numbers))
    try:
        main([*options, "--set", *SHORT, "--repeats", "1", "--sample", "1"])
        code = 0
    except SystemExit as stopped:
        code = stopped.code
    assert code == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith("| no |")


def test_the_share_of_prompts_that_was_not_computed_again():
    result = Result(Answer(""), Usage(prompt_tokens=40, reused_tokens=10), Trace())
    assert share_reused(result) == 0.25
    assert share_reused(replace(result, usage=Usage())) == 0
