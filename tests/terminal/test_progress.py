"""What a command shows while it works: the current activity, and the progress of long work."""

import io
import math
import time

import pytest
from rich.console import Console

from askance.core.answers import Usage
from askance.core.notes import before_doing, doing, shown_by
from askance.evaluation.run.runner import RunStatus
from askance.retrieval.index.build_report import BuildProgress
from askance.terminal import progress
from askance.terminal.progress import Activities, status_lines
from tests.evaluation.hand_made import record

RIGHT = {"exact_match": 1.0, "f1": 1.0, "yes_no_accuracy": None}
WRONG = {"exact_match": 0.0, "f1": 0.5, "yes_no_accuracy": None}
METRICS = ("exact_match", "f1", "yes_no_accuracy", "choice_accuracy", "str_em")


def console(width=80, **how):
    return Console(file=io.StringIO(), width=width, color_system=None, **how)


def convert():
    with doing("loading the [model]"), doing("converting the weights", 4) as advance:
        advance(1)
        advance(2)


LINES = "loading the [model]\nconverting the weights\n"


def test_an_activity_is_a_line_or_is_shown_while_it_lasts():
    convert()  # nobody has to listen
    for how in ({}, {"force_terminal": True, "force_interactive": False}):
        screen = console(**how)
        with shown_by(Activities(screen, ticks=False)):
            convert()
        assert screen.file.getvalue() == LINES
    screen = console(force_terminal=True, force_interactive=True)
    with shown_by(Activities(screen, ticks=False)):
        convert()
        with pytest.raises(ValueError, match="broken"), doing("opening"):
            raise ValueError("broken")
    shown = screen.file.getvalue()
    assert all(part in shown for part in ("loading the [model]", "━" * 10, "opening"))
    assert shown.rstrip("\r").endswith("\x1b[2K\x1b[?25h"), "the last line is erased"


def test_what_comes_first_is_shown_before_each_activity():
    screen = console()
    with shown_by(Activities(screen)), before_doing(lambda: screen.print("Where?")):
        convert()
    assert screen.file.getvalue() == "Where?\n" + LINES.replace("\n", "\nWhere?\n", 1)
    seen = []
    with before_doing(lambda: seen.append("asked")):
        convert()
    assert seen == ["asked", "asked"]


def status(*scores, metrics=METRICS[:3], **fields):
    made = RunStatus.of(40, metrics, [])
    for number, score in enumerate(scores, start=1):
        made.add(record(number, score, usage=Usage(generated_tokens=120, searches=1), **fields))
    made.began = time.perf_counter() - 60
    return made


@pytest.mark.parametrize(
    ("scores", "fields", "expected"),
    [
        ([], {}, ("0/40", "0.0 searches · 0 tokens/s")),
        ([RIGHT, WRONG], {}, ("2/40 · 0:19:00 left", "EM 0.50 ± 0.98 · F1 0.75 ± 0.49{} 4 tokens/s")),
        ([WRONG], {"error": "x"}, ("1/40 · 1 failed · 0:39:00 left", "EM 0.00 · F1 0.50{} 2 tokens/s")),
    ],
)
def test_running_means_with_their_intervals(scores, fields, expected):
    assert status_lines(status(*scores, **fields)) == (expected[0], expected[1].format(" · 1.0 searches ·"))


@pytest.mark.parametrize(
    ("metric", "title"),
    [("yes_no_accuracy", "accuracy"), ("choice_accuracy", "accuracy"), ("str_em", "STR-EM")],
)
def test_the_metric_made_for_the_questions_is_shown(metric, title):
    scores = dict.fromkeys(METRICS) | {"exact_match": 0.0, "f1": 0.0, metric: 1.0}
    assert status_lines(status(scores, metrics=METRICS))[1].startswith(f"{title} 1.00 · 1.0 searches")


ASKING = "musique/single: asking 39 questions, 1 already done"
LINE = "musique/single · 1/40 · 0:39:00 left · EM 1.00 · F1 1.00 · 1.0 searches · 2 tokens/s"


@pytest.mark.parametrize(
    ("name", "every_seconds", "reports", "lines"),
    [
        ("musique/single", 0, [(RIGHT,)], [ASKING, LINE]),
        ("", math.inf, [(), (RIGHT,)], ["asking 40 questions"]),
        ("", math.inf, [(RIGHT,) * 40], []),
    ],
)
def test_an_evaluation_without_a_terminal_prints_a_line_now_and_then(name, every_seconds, reports, lines):
    screen = console(100)
    with progress.EvaluationProgress(screen, name, every_seconds) as shown:
        for scores in reports:
            shown(status(*scores))
    assert screen.file.getvalue().splitlines() == lines


def test_a_run_that_is_stopped_says_how_to_continue():
    screen = console()
    shown = progress.EvaluationProgress(screen, every_seconds=60)
    shown(status(RIGHT, WRONG, error="ModelFailure: x"))
    shown.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert screen.file.getvalue().splitlines() == [
        "asking 38 questions, 2 already done",
        "stopped at 2/40 · 2 failed: the same command continues from there",
    ]


def test_a_bar_fits_80_columns_and_appears_with_the_first_report():
    """Models are loaded before, which shows a line of its own on the same terminal."""
    screen = console(force_terminal=True)
    with progress.EvaluationProgress(screen) as shown:
        assert screen.file.getvalue() == ""
        shown(status(RIGHT, WRONG))
        shown._bar.refresh()
    assert "F1 0.75 ± 0.49 · 1.0 searches · 4 tokens/s" in screen.file.getvalue()
    screen = console(100, force_terminal=True)
    with progress.JudgingProgress(screen, "runs/a") as shown:
        shown("facts", 3, 7)
        shown._bar.refresh()
    assert "runs/a, facts" in screen.file.getvalue()
    assert "3/7 answers" in screen.file.getvalue()


def test_indexing_and_calibrating_print_their_stages_without_a_terminal():
    screen = console()
    with progress.IndexProgress(screen) as shown:
        for documents in (1, 2):
            shown(BuildProgress("a.txt", documents, 3, 0))
        for encoded in (1, 3):
            shown(BuildProgress("a.txt", 2, 3, 0, encoded, 3))
    with progress.CalibrationProgress(screen, "threshold", 40) as shown:
        shown(1, 0.5, 0, None)
        shown(1, 0.5, 40, 1.25)
    assert screen.file.getvalue().splitlines() == [
        "reading documents",
        "encoding 3 passages",
        "trial 1, threshold=0.5: asking 40 questions",
        "trial 1, threshold=0.5: 1.25 searches per question",
    ]
