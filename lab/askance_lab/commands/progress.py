"""The progress of training and of annotating, as a bar on a terminal, or as a line at intervals."""

from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console

from askance.terminal.progress import ProgressBar

if TYPE_CHECKING:
    from askance_lab.training.loop.trainer import TrainingStatus


class AnnotationProgress(ProgressBar):
    """The progress of annotating rows."""

    _continues_from = "the last annotation"

    def __call__(self, done: int, total: int) -> None:
        """Show the number of annotated rows."""
        stage = "" if self._done else f"annotating {total - done:,} of {total:,} rows"
        self._done = f"{done:,}/{total:,} rows"
        self._show(done, total, self._done, stage=stage, line=self._done)


class TrainingProgress(ProgressBar):
    """The progress of a training run, as a bar on a terminal, and as a line at intervals elsewhere."""

    _stopped_by, _continues_from = KeyboardInterrupt, "the last checkpoint"
    _loss: float | None = None

    def __init__(self, console: Console, every_seconds: float = 60.0) -> None:
        super().__init__(console, "training", every_seconds)

    def __call__(self, status: "TrainingStatus") -> None:
        """Show a step."""
        if not self._done:
            is_new = status.step == 1
            start = "training, steps to take: " if is_new else f"continuing after step {status.step - 1:,}/"
            self._print(f"{start}{status.num_steps:,}")
        self._done = f"step {status.step:,}/{status.num_steps:,}"
        # Steps learn from different examples: a mean over the last steps says more than the last step.
        self._loss = status.loss if self._loss is None else 0.95 * self._loss + 0.05 * status.loss
        line = training_line(status, self._loss)
        is_measured = status.held_out is not None
        self._show(status.step, status.num_steps, line, line="" if is_measured else line)
        if is_measured:
            self._print(line)


def training_line(status: "TrainingStatus", loss: float) -> str:
    """Return a line with the step, the loss, the speed and the time left."""
    held_out = "" if status.held_out is None else f"held out {status.held_out:.3f}"
    left = timedelta(seconds=round(status.seconds_left))
    speed = f"{status.tokens_per_second:,.0f} tokens/s"
    parts = (f"step {status.step:,}/{status.num_steps:,}", f"loss {loss:.3f}", held_out, speed)
    return " · ".join(filter(None, (*parts, f"{left} left")))
