"""The progress of trainings."""

import io
from contextlib import suppress
from dataclasses import dataclass

from rich.console import Console

from askance_lab.commands.progress import TrainingProgress, training_line


@dataclass
class Step:
    """The status of a training."""

    step: int
    loss: float
    held_out: float | None = None
    num_steps: int = 1200
    tokens_per_second: float = 1500.4
    seconds_left: float = 3725.0


def test_a_line_of_training():
    assert training_line(Step(40, 9.0), 1.2345) == (
        "step 40/1,200 · loss 1.234 · 1,500 tokens/s · 1:02:05 left"
    )
    assert "loss 1.200 · held out 2.346 · " in training_line(Step(40, 9.0, 2.3456), 1.2)


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


def test_training_shows_every_measurement_and_otherwise_a_line_now_and_then():
    begin = "training, steps to take: 1,200"
    assert trained(Step(1, 4.0), Step(2, 2.0), Step(3, 2.0)) == [begin]
    first, line = trained(Step(1, 4.0), Step(2, 2.0, 3.0), Step(3, 2.0))
    assert first == begin
    assert line.startswith("step 2/1,200 · loss 3.900 · held out 3.000")
    assert len(trained(Step(1, 4.0), Step(2, 2.0), every_seconds=0.0)) == 3


def test_a_training_that_goes_on_says_where():
    assert trained(Step(41, 2.0), Step(42, 2.0)) == ["continuing after step 40/1,200"]


def test_a_training_that_is_interrupted_says_how_to_go_on():
    expected = ["stopped at step 1/1,200: the same command continues from the last checkpoint"]
    assert trained(Step(1, 4.0), error=KeyboardInterrupt())[1:] == expected
    assert trained(error=KeyboardInterrupt()) == []
    assert trained(Step(1, 4.0), error=ValueError())[1:] == []
