"""What is told of an evaluation while it runs."""

import io
import time

import pytest
from rich.console import Console

from askance.eval.standing import Standing
from askance.serve.progress import EvaluationProgress, standing_lines
from tests.eval.hand_made import record


def standing(*scores, metrics=("exact_match", "f1", "yes_no_accuracy"), **fields):
    made = Standing.of(40, metrics, [])
    for number, score in enumerate(scores, start=1):
        made.add(record(number, score, **fields))
    made.began = time.perf_counter() - 60
    return made


RIGHT = {"exact_match": 1.0, "f1": 1.0, "yes_no_accuracy": None}
WRONG = {"exact_match": 0.0, "f1": 0.5, "yes_no_accuracy": None}


def test_before_the_first_question():
    assert standing_lines(standing()) == ("0/40", "0.0 searches · 0 tokens/s")


def test_running_means_with_their_intervals():
    progress, numbers = standing_lines(standing(RIGHT, WRONG))
    assert progress == "2/40 · 0:19:00 left"
    assert numbers == "EM 0.50 ± 0.98 · F1 0.75 ± 0.49 · 1.0 searches · 4 tokens/s"


def test_yes_or_no_questions_have_accuracy_alone():
    yes = {"exact_match": 1.0, "f1": 1.0, "yes_no_accuracy": 1.0}
    assert standing_lines(standing(yes))[1].startswith("accuracy 1.00 · 1.0 searches")


def test_failures_are_told():
    assert standing_lines(standing(WRONG, error="ModelFailure: x"))[0] == "1/40 · 1 failed · 0:39:00 left"


def test_without_a_terminal_a_line_now_and_then():
    stream = io.StringIO()
    with EvaluationProgress(Console(file=stream, width=80), "musique/single", every_seconds=0) as progress:
        progress(standing(RIGHT))
    assert stream.getvalue() == (
        "musique/single · 1/40 · 0:39:00 left · EM 1.00 · F1 1.00 · 1.0 searches · 2 tokens/s\n"
    )
    silent = io.StringIO()
    with EvaluationProgress(Console(file=silent, width=80), every_seconds=60) as progress:
        progress(standing(RIGHT))
    assert not silent.getvalue()


def test_on_a_terminal_it_fits_80_columns():
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system=None)
    with EvaluationProgress(console) as progress:
        progress(standing(RIGHT, WRONG))
        progress._bar.refresh()
    assert "F1 0.75 ± 0.49 · 1.0 searches · 4 tokens/s" in stream.getvalue()


def test_a_run_that_is_stopped_says_how_to_go_on():
    stream = io.StringIO()

    def interrupted():
        with EvaluationProgress(Console(file=stream, width=80), every_seconds=60) as progress:
            progress(standing(RIGHT, WRONG, error="ModelFailure: x"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stream.getvalue() == "stopped at 2/40 · 2 failed: the same command goes on from there\n"
