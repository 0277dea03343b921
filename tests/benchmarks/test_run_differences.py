"""Two runs compared: what must be the same, and what may differ."""

import math
from dataclasses import replace

import pytest
from benchmarks.run_differences import TOLERANCE, gap, repeated, run_differences

from askance.configuration.evaluation import open_metrics
from askance.core.answers import Usage
from askance.core.trace import Trace, WordSignal
from askance.evaluation.run.recorded_run import open_run, read_run
from tests.evaluation.hand_made import record, run_of, settings, written
from tests.tolerances import near


def test_times_and_cached_tokens_may_differ(tmp_path):
    slow = Usage(prompt_tokens=100, generated_tokens=10, reused_tokens=90, searches=1, seconds=9.0)
    first = written(tmp_path / "a", [record(1), record(2)])
    second = written(tmp_path / "b", [record(1, usage=slow), record(2)])
    found = run_differences(first, second)
    assert found.are_none
    assert found.num_questions == 2
    assert found.largest_gap == 0


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"text": "So the answer is Ulm."}, "answers"),
        ({"error": "ModelFailure: out of ink"}, "answers"),
        ({"scores": {"f1": 0.5}}, "scores"),
        ({"decisions": {"search": 2}}, "decisions"),
        ({"golds": ("Ulm",)}, "questions"),
        ({"usage": Usage(prompt_tokens=100, generated_tokens=10, searches=2)}, "searches"),
        ({"usage": Usage(prompt_tokens=100, generated_tokens=11, searches=1)}, "generated tokens"),
        ({"usage": Usage(prompt_tokens=101, generated_tokens=10, searches=1)}, "prompt tokens"),
    ],
)
def test_what_must_be_the_same(tmp_path, changed, told):
    first = written(tmp_path / "a", [record(1), record(2)])
    second = written(tmp_path / "b", [record(1), replace(record(2), **changed)])
    found = run_differences(first, second)
    assert {what for what, ids in found.differing.items() if ids} == {told}
    assert found.differing[told] == ("q2",)
    assert not found.are_none


def test_questions_of_one_run_only_and_questions_twice(tmp_path):
    first = written(tmp_path / "a", [record(1), record(2)])
    second = written(tmp_path / "b", [record(1), record(3)])
    found = run_differences(first, second)
    assert (found.ids, found.num_questions, found.are_none) == (("q2", "q3"), 1, False)
    twice = replace(first, records=(first.records[0], *first.records))
    assert repeated(twice.records) == ["q1"]
    assert run_differences(first, twice).ids == ("q1",)


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
    found = run_differences(first, close)
    assert found.are_none
    assert found.largest_gap == near(TOLERANCE / 2)
    far = run_differences(first, traced(tmp_path / "c", 0.5 + 2 * TOLERANCE))
    assert far.differing["traces"] == ("q1",)
    assert not far.are_none


def test_gaps_by_hand():
    assert gap({"at_seconds": 1.0, "n": [1.0, 2.0]}, {"at_seconds": 5.0, "n": [1.0, 2.25]}) == 0.25
    assert gap({"a": 1}, {"a": 1, "b": 2}) == math.inf
    assert gap([1.0], [1.0, 1.0]) == math.inf
    assert gap({"n": 3}, {"n": 4}) == math.inf, "counts have no last digits"
    assert gap("x", "y") == math.inf
    assert gap(math.inf, math.inf) == 0
    assert gap(math.inf, 1.0) == math.inf


def test_runs_without_a_common_question():
    assert run_differences(run_of([]), run_of([record(1)])).ids == ("q1",)
