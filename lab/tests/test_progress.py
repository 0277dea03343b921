"""The progress of trainings."""

import io
from contextlib import suppress
from dataclasses import dataclass

import pytest
from rich.console import Console

from askance_lab.commands.progress import TrainingProgress


@dataclass
class Step:
    """The status of a training."""

    step: int
    loss: float
    held_out: float | None = None
    num_steps: int = 1200
    tokens_per_second: float = 1500.4
    seconds_left: float = 3725.0


def trained(*steps, every_seconds=60.0, error=None):
    """Return the text that is written where there is no terminal."""
    screen = io.StringIO()
    with (
        suppress(KeyboardInterrupt, ValueError),
        TrainingProgress(Console(file=screen), every_seconds) as show,
    ):
        for step in steps:
            show(step)
        if error:
            raise error
    return screen.getvalue().splitlines()


BEGIN = "training, steps to take: 1,200"
LINE = "step {}/1,200 · loss {} · 1,500 tokens/s · 1:02:05 left"
STOPPED = "stopped at step 1/1,200: the same command continues from the last checkpoint"


@pytest.mark.parametrize(
    ("steps", "given", "lines"),
    [
        # Every measurement is shown, and otherwise a line now and then.
        ([Step(1, 4.0), Step(2, 2.0), Step(3, 2.0)], {}, [BEGIN]),
        (
            [Step(1, 4.0), Step(2, 2.0, 3.0), Step(3, 2.0)],
            {},
            [BEGIN, LINE.format(2, "3.900 · held out 3.000")],
        ),
        (
            [Step(1, 4.0), Step(2, 2.0)],
            {"every_seconds": 0.0},
            [BEGIN, LINE.format(1, "4.000"), LINE.format(2, "3.900")],
        ),
        ([Step(41, 2.0), Step(42, 2.0)], {}, ["continuing after step 40/1,200"]),
        ([Step(1, 4.0)], {"error": KeyboardInterrupt()}, [BEGIN, STOPPED]),
        ([], {"error": KeyboardInterrupt()}, []),
        ([Step(1, 4.0)], {"error": ValueError()}, [BEGIN]),
    ],
)
def test_lines_where_there_is_no_terminal(steps, given, lines):
    assert trained(*steps, **given) == lines
