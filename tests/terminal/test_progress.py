"""The progress of evaluations, index builds and calibrations."""

import io
import math
import time

import pytest
from rich.console import Console

from askance.evaluation.run.runner import RunStatus
from askance.retrieval.index.build_report import BuildProgress
from askance.terminal.progress import (
    CalibrationProgress,
    EvaluationProgress,
    IndexProgress,
    JudgingProgress,
    status_lines,
)
from tests.evaluation.hand_made import record


def status(*scores, metrics=("exact_match", "f1", "yes_no_accuracy"), **fields):
    made = RunStatus.of(40, metrics, [])
    for number, score in enumerate(scores, start=1):
        made.add(record(number, score, **fields))
    made.began = time.perf_counter() - 60
    return made


RIGHT = {"exact_match": 1.0, "f1": 1.0, "yes_no_accuracy": None}
WRONG = {"exact_match": 0.0, "f1": 0.5, "yes_no_accuracy": None}


def test_before_the_first_question():
    assert status_lines(status()) == ("0/40", "0.0 searches · 0 tokens/s")


def test_running_means_with_their_intervals():
    progress, numbers = status_lines(status(RIGHT, WRONG))
    assert progress == "2/40 · 0:19:00 left"
    assert numbers == "EM 0.50 ± 0.98 · F1 0.75 ± 0.49 · 1.0 searches · 4 tokens/s"


def test_yes_or_no_questions_have_accuracy_alone():
    yes = {"exact_match": 1.0, "f1": 1.0, "yes_no_accuracy": 1.0}
    assert status_lines(status(yes))[1].startswith("accuracy 1.00 · 1.0 searches")


def test_failures_are_told():
    assert status_lines(status(WRONG, error="ModelFailure: x"))[0] == "1/40 · 1 failed · 0:39:00 left"


def test_without_a_terminal_a_line_now_and_then():
    stream = io.StringIO()
    with EvaluationProgress(Console(file=stream, width=80), "musique/single", every_seconds=0) as progress:
        progress(status(RIGHT))
    assert stream.getvalue() == (
        "musique/single: asking 39 questions, 1 already done\n"
        "musique/single · 1/40 · 0:39:00 left · EM 1.00 · F1 1.00 · 1.0 searches · 2 tokens/s\n"
    )
    stream = io.StringIO()
    with EvaluationProgress(Console(file=stream, width=80), every_seconds=math.inf) as progress:
        progress(status())
        progress(status(RIGHT))
    assert stream.getvalue() == "asking 40 questions\n"


def test_on_a_terminal_it_fits_80_columns():
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system=None)
    with EvaluationProgress(console) as progress:
        progress(status(RIGHT, WRONG))
        progress._bar.refresh()
    assert "F1 0.75 ± 0.49 · 1.0 searches · 4 tokens/s" in stream.getvalue()


def test_a_run_that_is_stopped_says_how_to_go_on():
    stream = io.StringIO()

    def interrupted():
        with EvaluationProgress(Console(file=stream, width=80), every_seconds=60) as progress:
            progress(status(RIGHT, WRONG, error="ModelFailure: x"))
            assert stream.getvalue() == "asking 38 questions, 2 already done\n"
            stream.truncate(0)
            stream.seek(0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stream.getvalue() == "stopped at 2/40 · 2 failed: the same command continues from there\n"


def test_judging_says_how_many_answers_are_judged():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with JudgingProgress(console, "runs/a") as progress:
        progress("facts", 3, 7)
        progress._bar.refresh()
    assert "runs/a, facts" in console.file.getvalue()
    assert "3/7 answers" in console.file.getvalue()


@pytest.mark.parametrize(
    ("metric", "title"),
    [("yes_no_accuracy", "accuracy"), ("choice_accuracy", "accuracy"), ("str_em", "STR-EM")],
)
def test_the_metric_made_for_the_questions_is_shown(metric, title):
    metrics = ("exact_match", "f1", "yes_no_accuracy", "choice_accuracy", "str_em")
    scores = dict.fromkeys(metrics) | {"exact_match": 0.0, "f1": 0.0, metric: 1.0}
    _, told = status_lines(status(scores, metrics=metrics))
    assert told.startswith(f"{title} 1.00 · ")


def test_indexing_and_calibrating_tell_their_stages_without_a_terminal():
    stream = io.StringIO()
    with IndexProgress(Console(file=stream, width=80)) as progress:
        for documents in (1, 2):
            progress(BuildProgress("a.txt", documents, 3, 0))
        for encoded in (1, 3):
            progress(BuildProgress("a.txt", 2, 3, 0, encoded, 3))
    assert stream.getvalue().splitlines() == ["reading documents", "encoding 3 passages"]
    stream = io.StringIO()
    with CalibrationProgress(Console(file=stream, width=80), "threshold", 40) as progress:
        progress(1, 0.5, 0, None)
        progress(1, 0.5, 40, 1.25)
    assert stream.getvalue().splitlines() == [
        "trial 1, threshold=0.5: asking 40 questions",
        "trial 1, threshold=0.5: 1.25 searches per question",
    ]


def test_a_bar_makes_way_until_something_is_told():
    """Models are loaded in between, which shows a line of its own on the same terminal."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with EvaluationProgress(console) as progress:
        assert console.file.getvalue() == ""
        progress(status(RIGHT))
        assert "1/40" in console.file.getvalue()


def test_a_run_that_is_finished_asks_nothing():
    stream = io.StringIO()
    done = RunStatus.of(1, ("exact_match",), [])
    done.add(record(1, {"exact_match": 1.0}))
    with EvaluationProgress(Console(file=stream, width=80)) as progress:
        progress(done)
    assert stream.getvalue() == ""
