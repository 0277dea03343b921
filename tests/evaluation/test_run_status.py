"""Running numbers of an evaluation, against the same taken at once."""

import math
import statistics
import time

from hypothesis import given
from hypothesis import strategies as st

from askance.core.answers import Usage
from askance.evaluation.run.runner import RunningMean, RunStatus
from tests.evaluation.hand_made import record
from tests.tolerances import near

SCORES = st.lists(st.floats(0, 1), min_size=2, max_size=40)


@given(SCORES)
def test_mean_and_margin_are_those_of_all_numbers_at_once(scores):
    running = RunningMean()
    for score in scores:
        running.add(score)
    assert running.mean == near(statistics.fmean(scores))
    expected = 1.96 * statistics.stdev(scores) / math.sqrt(len(scores))
    assert running.margin == near(expected, "standard deviation")


def test_one_number_has_no_interval():
    running = RunningMean()
    running.add(1.0)
    assert (running.mean, running.margin) == (1.0, math.inf)


def test_questions_finished_before_count_but_not_for_the_speed(monkeypatch):
    before = [record(1, {"f1": 1.0}), record(2, {"f1": 0.0}, error="ModelFailure: gone")]
    status = RunStatus.of(10, ("f1",), before)
    assert (status.num_finished, status.num_failures, status.metrics["f1"].mean) == (2, 1, 0.5)
    assert (status.tokens_computed, status.seconds_left) == (0, None)
    monkeypatch.setattr(time, "perf_counter", lambda: status.began + 6)
    status.add(record(3, {"f1": 0.5}, usage=Usage(prompt_tokens=90, reused_tokens=30, generated_tokens=10)))
    assert status.tokens_computed == 70
    assert status.seconds_left == near(7 * 6)
    assert status.tokens_per_second == near(70 / 6)
    assert status.first_failure == "q2: ModelFailure: gone"


def test_a_metric_that_does_not_apply_is_not_counted():
    status = RunStatus.of(2, ("f1", "yes_no_accuracy"), [record(1, {"f1": 1.0, "yes_no_accuracy": None})])
    assert (status.metrics["f1"].count, status.metrics["yes_no_accuracy"].count) == (1, 0)
