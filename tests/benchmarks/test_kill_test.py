"""The kill test on the scripted model: what it finds, and what it must find."""

import json
import math
import subprocess
from dataclasses import replace

import pytest
from benchmarks.kill_test import TOLERANCE, differences, gap, main, num_lost

from askance.configuration.evaluation import open_metrics
from askance.core.answers import Usage
from askance.core.trace import Trace, WordSignal
from askance.evaluation.run.recorded_run import open_run, read_run
from tests.evaluation.hand_made import record, settings, written

NUM_QUESTIONS = 60


@pytest.fixture
def options(tmp_path):
    """Enough quick questions that a run is not over before it is killed."""
    rows = [
        {"question": f"Which river is in town {at}?", "answers": ["Rhine"]} for at in range(NUM_QUESTIONS)
    ]
    file = tmp_path / "rivers.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    asked = ["--dataset", f"jsonl:{file}", "--method", "closed_book", "--model", "scripted"]
    return ["--out", str(tmp_path / "out"), "--kills", "2", "--", *asked, "--in-flight", "1"]


def test_a_run_that_is_killed_is_the_same_as_one_left_alone(options, capsys):
    main(options)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    first, second, end = rows[2:5]
    assert first[1] == "0"
    assert 0 < int(first[2]) == int(second[1]) < int(second[2]) == int(end[1])
    assert int(end[2]) == NUM_QUESTIONS
    assert {row[-1] for row in (first, second, end)} == {"0 |"}
    assert all(row[-1] == "0 |" for row in rows[7:])


def test_a_run_that_fails_is_an_error(options, capfd):
    with pytest.raises(subprocess.CalledProcessError):
        main([*options, "--set", "max_tokenz=3"])
    assert "unknown parameter 'max_tokenz'" in capfd.readouterr().err


def test_what_is_lost():
    before = [record(1), record(2), record(3)]
    assert num_lost(before, [*before, record(4)]) == 0
    assert num_lost(before, before[:1]) == 2
    assert num_lost(before, [record(1), record(2, text="Another."), record(3)]) == 1
    assert num_lost([], before) == 0


def differing(first, second):
    return {what: number for what, number in differences(first, second).items() if number}


SLOW = Usage(prompt_tokens=100, generated_tokens=10, reused_tokens=90, searches=1, seconds=9.0)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"usage": SLOW}, {}),
        ({"id": "q3", "number": 3}, {"not once in both": 2}),
        ({"text": "So the answer is Ulm."}, {"answers": 1}),
        ({"error": "ModelFailure: out of ink"}, {"answers": 1}),
        ({"scores": {"f1": 0.5}}, {"scores": 1}),
        ({"decisions": {"search": 2}}, {"decisions": 1}),
        ({"golds": ("Ulm",)}, {"questions": 1}),
        ({"usage": replace(SLOW, searches=2)}, {"searches": 1}),
        ({"usage": replace(SLOW, generated_tokens=11)}, {"generated tokens": 1}),
        ({"usage": replace(SLOW, prompt_tokens=101)}, {"prompt tokens": 1}),
    ],
)
def test_what_must_be_the_same(tmp_path, changed, told):
    first = written(tmp_path / "a", [record(1), record(2)])
    assert differing(first, written(tmp_path / "b", [record(1), replace(record(2), **changed)])) == told
    twice = replace(first, records=(first.records[0], *first.records))
    assert differing(first, twice) == {"not once in both": 1}


def traced(folder, value):
    """A run of one question, whose trace holds one decision on one word."""
    trace, made = Trace(), record(1)
    trace.decide("retrieve", "search", "why", words=(WordSignal("Bonn", value, True),))
    asked = settings([made])
    with open_run(folder, lambda before: asked, [], open_metrics(asked.metrics)) as (writer, _):
        writer.add([(made, trace)])
    return read_run(folder)


def test_numbers_in_traces_may_differ_in_their_last_digits(tmp_path):
    first, close = traced(tmp_path / "a", 0.5), traced(tmp_path / "b", 0.5 + TOLERANCE / 2)
    assert differing(first, close) == {}
    assert differing(first, traced(tmp_path / "c", 0.5 + 2 * TOLERANCE)) == {"traces": 1}


def test_gaps_by_hand():
    assert gap({"at_seconds": 1.0, "n": [1.0, 2.0]}, {"at_seconds": 5.0, "n": [1.0, 2.25]}) == 0.25
    assert gap(math.inf, math.inf) == 0
    for one, other in (
        ({"a": 1}, {"a": 1, "b": 2}),
        ([1.0], [1.0, 1.0]),
        (3, 4),
        ("x", "y"),
        (math.inf, 1.0),
    ):
        assert gap(one, other) == math.inf, "only numbers with digits behind the point may differ"
