"""What a command is doing, and how far it is: a line or bar on a terminal, elsewhere lines that stay."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from askance.core.notes import Advance
from askance.terminal.console import tell
from askance.text.printable import printable

if TYPE_CHECKING:
    from askance.evaluation.run.runner import RunningMean, RunStatus
    from askance.retrieval.index.build import BuildProgress
    from askance.training.reader.trainer import TrainingStatus


class Activities:
    """Shows what is being done: on a terminal in a line that goes when it is over, else in one that stays.

    Args:
        ticks: whether the line on a terminal is redrawn while nothing is told.
    """

    def __init__(self, console: Console, *, ticks: bool = True) -> None:
        self._console, self._ticks = console, ticks
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            _Part(),
            TimeElapsedColumn(),
        )
        self._lines = Progress(*columns, console=console, transient=True, auto_refresh=ticks)

    @contextmanager
    def __call__(self, what: str, total: float | None) -> Iterator[Advance]:
        """Show `what` while the work inside goes on; within other work, the innermost comes last."""
        what = printable(what)
        if not self._console.is_interactive:
            tell(self._console, what, "dim")
            yield lambda amount: None
            return
        lines, is_outermost = self._lines, not self._lines.tasks
        task = lines.add_task(what, total=total)
        if is_outermost:
            lines.start()
        try:
            yield lambda amount: lines.update(task, advance=amount, refresh=not self._ticks)
        finally:
            lines.remove_task(task)
            if is_outermost:
                lines.stop()


class _Part(BarColumn):
    """A bar for work that tells how far it is, and nothing for other work."""

    def __init__(self) -> None:
        super().__init__(bar_width=20)

    def render(self, task: Task) -> Text:  # type: ignore[override]
        return Text() if task.total is None else super().render(task)  # type: ignore[return-value]


OPEN_METRICS = {"exact_match": "EM", "f1": "F1"}
SPECIAL_METRICS = {"yes_no_accuracy": "accuracy", "choice_accuracy": "accuracy", "str_em": "STR-EM"}
"""Shown instead of those where they apply to every question."""


class _Bar:
    """A bar that is there from the first that is told of the work until its end, if there is a terminal;
    elsewhere a line for each stage of the work.

    Args:
        name: of the work, where there are several.
        every_seconds: how often a line is written where there is no terminal, behind one at the start.
    """

    _done = ""
    """How much of work that can go on after an error is done; nothing before it is told of."""
    _stopped_by: type[BaseException] = BaseException
    _goes_on_from = "there"

    def __init__(self, console: Console, name: str = "", every_seconds: float = 30.0) -> None:
        self._console, self._name, self._every_seconds = console, printable(name), every_seconds
        self._shown_at, self._stage = time.monotonic(), ""
        what = TextColumn("{task.description}", markup=False)
        numbers = TextColumn("{task.fields[told]}", markup=False)
        columns = what, BarColumn(bar_width=20), numbers, TimeElapsedColumn()
        is_off = not console.is_terminal
        self._bar = Progress(*columns, console=console, transient=True, disable=is_off)
        self._task = self._bar.add_task(self._name, total=None, told="")

    def __enter__(self) -> Self:
        return self

    def _show(self, done: int, total: int | None, told: str, name: str = "", stage: str = "") -> None:
        """Show how far the work is; its stage is told once, where there is no terminal."""
        if stage not in ("", self._stage) and not self._console.is_terminal:
            self._print(stage, "dim")
        self._stage = stage or self._stage
        description = name or self._name
        self._bar.update(self._task, completed=done, total=total, told=told, description=description)
        self._bar.start()

    def _print(self, line: str, style: str = "") -> None:
        self._shown_at = time.monotonic()
        tell(self._console, line, style)

    def _is_due(self) -> bool:
        """Whether the next line is to be written."""
        return not self._console.is_terminal and time.monotonic() - self._shown_at >= self._every_seconds

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        self._bar.stop()
        if self._done and isinstance(error, self._stopped_by):
            self._print(f"stopped at {self._done}: the same command goes on from {self._goes_on_from}")


class IndexProgress(_Bar):
    """Shows how far a build is. How many documents will come is not known: the bar only moves."""

    def __call__(self, step: "BuildProgress") -> None:
        """Take one step of the build; how many passages are to be encoded is known."""
        told = f"{step.documents:,} documents · {step.passages:,} passages"
        if step.to_encode:
            name = f"encoding {step.encoded:,} of {step.to_encode:,}"
            self._show(step.encoded, step.to_encode, told, name, f"encoding {step.to_encode:,} passages")
        else:
            self._show(0, None, told, printable(step.source), "reading documents")


class CalibrationProgress(_Bar):
    """Shows how far a calibration is; a line stays for every value that has been tried."""

    def __init__(self, console: Console, parameter: str, num_questions: int) -> None:
        super().__init__(console, parameter)
        self._num_questions = num_questions

    def __call__(self, trial: int, value: float, done: int, searches: float | None) -> None:
        """Take one question of a trial; `searches` is their mean number once the trial is over."""
        name = f"trial {trial}, {self._name}={value:g}"
        stage = f"{name}: asking {self._num_questions:,} questions"
        self._show(done, self._num_questions, f"{done}/{self._num_questions} questions", name, stage)
        if searches is not None:
            self._print(f"{name}: {searches:.2f} searches a question", "dim")


class JudgingProgress(_Bar):
    """Shows how far the judging of a run is."""

    def __call__(self, kind: str, done: int, total: int) -> None:
        """Take an answer that is judged."""
        stage = f"{self._name}: judging the {kind} of {total:,} answers"
        self._show(done, total, f"{done}/{total} answers", f"{self._name}, {kind}", stage)


class EvaluationProgress(_Bar):
    """Shows how an evaluation stands: a bar on a terminal, elsewhere a line now and then."""

    def __call__(self, standing: "RunStatus") -> None:
        """Show a standing."""
        done, total = standing.num_finished, standing.num_questions
        stage = ""
        if not self._done and done < total:
            before = f", {done:,} done before" if done else ""
            name = f"{self._name}: " if self._name else ""
            stage = f"{name}asking {total - done:,} questions{before}"
        self._done = _done(standing)
        lines = standing_lines(standing)
        self._show(done, total, "\n".join(lines), stage=stage)
        if self._is_due():
            self._print(" · ".join(filter(None, (self._name, *lines))))


class TrainingProgress(_Bar):
    """Shows how far a training is: a bar on a terminal, elsewhere a line now and then."""

    _stopped_by, _goes_on_from = KeyboardInterrupt, "the last checkpoint"
    _loss: float | None = None

    def __init__(self, console: Console, every_seconds: float = 60.0) -> None:
        super().__init__(console, "training", every_seconds)

    def __call__(self, standing: "TrainingStatus") -> None:
        """Take one step."""
        if not self._done:
            is_new = standing.step == 1
            told = "training, steps to take: " if is_new else f"going on after step {standing.step - 1:,}/"
            self._print(f"{told}{standing.num_steps:,}")
        self._done = f"step {standing.step:,}/{standing.num_steps:,}"
        # Steps differ in what they learn: a mean over the last ones says more than the last one.
        self._loss = standing.loss if self._loss is None else 0.95 * self._loss + 0.05 * standing.loss
        told = training_line(standing, self._loss)
        self._show(standing.step, standing.num_steps, told)
        if standing.held_out is not None or self._is_due():
            self._print(told)


def training_line(standing: "TrainingStatus", loss: float) -> str:
    """Steps, loss, speed and the time left."""
    held_out = "" if standing.held_out is None else f"held out {standing.held_out:.3f}"
    left = timedelta(seconds=round(standing.seconds_left))
    speed = f"{standing.tokens_per_second:,.0f} tokens/s"
    parts = (f"step {standing.step:,}/{standing.num_steps:,}", f"loss {loss:.3f}", held_out, speed)
    return " · ".join(filter(None, (*parts, f"{left} left")))


def standing_lines(standing: "RunStatus") -> tuple[str, str]:
    """First how many are done and how long the others will take, then means with 95 % intervals and speed."""
    left = standing.seconds_left
    progress = [_done(standing), "" if left is None else f"{timedelta(seconds=round(left))} left"]
    titles = {
        name: title
        for name, title in SPECIAL_METRICS.items()
        if name in standing.metrics and standing.metrics[name].count == standing.num_finished
    }
    titles = titles if len(titles) == 1 else OPEN_METRICS
    numbers = [_running(title, standing.metrics.get(name)) for name, title in titles.items()]
    numbers += [f"{standing.searches.mean:.1f} searches", f"{standing.tokens_per_second:,.0f} tokens/s"]
    return " · ".join(filter(None, progress)), " · ".join(filter(None, numbers))


def _done(standing: "RunStatus") -> str:
    failed = f" · {standing.num_failures:,} failed" if standing.num_failures else ""
    retries = f" · {standing.num_retries:,} calls tried again" if standing.num_retries else ""
    return f"{standing.num_finished:,}/{standing.num_questions:,}{failed}{retries}"


def _running(title: str, mean: "RunningMean | None") -> str:
    if mean is None or not mean.count:
        return ""
    return f"{title} {mean.mean:.2f}" + (f" ± {mean.margin:.2f}" if mean.count > 1 else "")
