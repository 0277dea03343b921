"""Progress of commands, as a temporary line or bar on a terminal, and as permanent lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from askance.core.notes import Advance
from askance.core.safe_text import printable
from askance.terminal.console import print_plain

if TYPE_CHECKING:
    from askance.evaluation.run.runner import RunningMean, RunStatus
    from askance.retrieval.index.build_report import BuildProgress


class Activities:
    """A display of the current activity: a temporary line on a terminal, and a permanent line elsewhere.

    Args:
        ticks: Whether the line on a terminal is redrawn while nothing happens.
    """

    def __init__(self, console: Console, *, ticks: bool = True) -> None:
        self._console, self._ticks = console, ticks
        self._lines = _bars(console, auto_refresh=ticks)

    @contextmanager
    def __call__(self, activity: str, total: float | None) -> Iterator[Advance]:
        """Show an activity until the block ends.

        Activities may be nested; the innermost activity is shown last.
        """
        activity = printable(activity)
        if not self._console.is_interactive:
            print_plain(self._console, activity, "dim")
            yield lambda amount: None
            return
        lines, is_outermost = self._lines, not self._lines.tasks
        task = lines.add_task(activity, total=total, numbers="")
        if is_outermost:
            lines.start()
        try:
            yield lambda amount: lines.update(task, advance=amount, refresh=not self._ticks)
        finally:
            lines.remove_task(task)
            if is_outermost:
                lines.stop()


def _bars(console: Console, **options: Any) -> Progress:
    """Return a display of bars. The bar of work with an unknown total pulses."""
    description = TextColumn("{task.description}", markup=False)
    numbers = TextColumn("{task.fields[numbers]}", markup=False)
    columns = description, BarColumn(bar_width=20), numbers, TimeElapsedColumn()
    return Progress(*columns, console=console, transient=True, **options)


OPEN_METRICS = {"exact_match": "EM", "f1": "F1"}
SPECIAL_METRICS = {"yes_no_accuracy": "accuracy", "choice_accuracy": "accuracy", "str_em": "STR-EM"}
"""The metrics that are shown instead of `OPEN_METRICS` if they apply to every question."""


class ProgressBar:
    """A progress bar on a terminal, and a line for each stage elsewhere.

    The bar is shown from the first report until the end of the work.

    Args:
        name: The name of the work; empty if there is only one.
        every_seconds: The interval between lines if the output is not a terminal.
    """

    _done = ""
    """The amount of work done, as text. It is empty before the first report, and always if the work can't be
    continued after an error."""
    _stopped_by: type[BaseException] = BaseException
    _continues_from = "there"

    def __init__(self, console: Console, name: str = "", every_seconds: float = 30.0) -> None:
        self._console, self._name, self._every_seconds = console, printable(name), every_seconds
        self._shown_at, self._stage = time.monotonic(), ""
        self._bar = _bars(console, disable=not console.is_terminal)
        self._task = self._bar.add_task(self._name, total=None, numbers="")

    def __enter__(self) -> Self:
        return self

    def _show(
        self, done: int, total: int | None, numbers: str, name: str = "", stage: str = "", line: str = ""
    ) -> None:
        """Show the progress. Without a terminal, print each new stage, and `line` at intervals."""
        if stage not in ("", self._stage) and not self._console.is_terminal:
            self._print(stage, "dim")
        self._stage = stage or self._stage
        description = name or self._name
        self._bar.update(self._task, completed=done, total=total, numbers=numbers, description=description)
        self._bar.start()
        is_due = time.monotonic() - self._shown_at >= self._every_seconds
        if line and is_due and not self._console.is_terminal:
            self._print(line)

    def _print(self, line: str, style: str = "") -> None:
        self._shown_at = time.monotonic()
        print_plain(self._console, line, style)

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        self._bar.stop()
        if self._done and isinstance(error, self._stopped_by):
            self._print(f"stopped at {self._done}: the same command continues from {self._continues_from}")


class IndexProgress(ProgressBar):
    """The progress of an index build. The number of documents is unknown, so the bar shows no percentage."""

    def __call__(self, step: "BuildProgress") -> None:
        """Show a step of the build. The number of passages to encode is known, so the bar shows it."""
        numbers = f"{step.documents:,} documents · {step.passages:,} passages"
        if step.to_encode:
            name = f"encoding {step.encoded:,} of {step.to_encode:,}"
            self._show(step.encoded, step.to_encode, numbers, name, f"encoding {step.to_encode:,} passages")
        else:
            self._show(0, None, numbers, printable(step.source), "reading documents")


class CalibrationProgress(ProgressBar):
    """The progress of a calibration, with a permanent line for every value that has been tried."""

    def __init__(self, console: Console, parameter: str, num_questions: int) -> None:
        super().__init__(console, parameter)
        self._num_questions = num_questions

    def __call__(self, trial: int, value: float, done: int, searches: float | None) -> None:
        """Show the progress of a trial, and print a line when the trial is over.

        Args:
            searches: The mean number of searches per question; None until the trial is over.
        """
        name = f"trial {trial}, {self._name}={value:g}"
        stage = f"{name}: asking {self._num_questions:,} questions"
        self._show(done, self._num_questions, f"{done}/{self._num_questions} questions", name, stage)
        if searches is not None:
            self._print(f"{name}: {searches:.2f} searches per question", "dim")


class WritingProgress(ProgressBar):
    """The progress of writing questions."""

    def __call__(self, kept: int, wanted: int) -> None:
        """Show the number of questions that were kept."""
        self._show(kept, wanted, f"{kept}/{wanted} questions", stage=f"{self._name}: {wanted:,} wanted")


class JudgingProgress(ProgressBar):
    """The progress of judging a run."""

    def __call__(self, kind: str, done: int, total: int) -> None:
        """Show the number of judged answers."""
        stage = f"{self._name}: judging the {kind} of {total:,} answers"
        self._show(done, total, f"{done}/{total} answers", f"{self._name}, {kind}", stage)


class EvaluationProgress(ProgressBar):
    """The progress of an evaluation, as a bar on a terminal, and as a line at intervals elsewhere."""

    def __call__(self, status: "RunStatus") -> None:
        """Show the status of a run."""
        done, total = status.num_finished, status.num_questions
        stage = ""
        if not self._done and done < total:
            before = f", {done:,} already done" if done else ""
            name = f"{self._name}: " if self._name else ""
            stage = f"{name}asking {total - done:,} questions{before}"
        self._done = _done(status)
        lines = status_lines(status)
        line = " · ".join(filter(None, (self._name, *lines)))
        self._show(done, total, "\n".join(lines), stage=stage, line=line)


def status_lines(status: "RunStatus") -> tuple[str, str]:
    """Return two lines: questions done and time left, then means with 95 % intervals and the speed."""
    left = status.seconds_left
    progress = [_done(status), "" if left is None else f"{timedelta(seconds=round(left))} left"]
    titles = {
        name: title
        for name, title in SPECIAL_METRICS.items()
        if name in status.metrics and status.metrics[name].count == status.num_finished
    }
    titles = titles if len(titles) == 1 else OPEN_METRICS
    numbers = [_running(title, status.metrics.get(name)) for name, title in titles.items()]
    numbers += [f"{status.searches.mean:.1f} searches", f"{status.tokens_per_second:,.0f} tokens/s"]
    return " · ".join(filter(None, progress)), " · ".join(filter(None, numbers))


def _done(status: "RunStatus") -> str:
    failed = f" · {status.num_failures:,} failed" if status.num_failures else ""
    retries = f" · {status.num_retries:,} calls repeated" if status.num_retries else ""
    return f"{status.num_finished:,}/{status.num_questions:,}{failed}{retries}"


def _running(title: str, mean: "RunningMean | None") -> str:
    if mean is None or not mean.count:
        return ""
    return f"{title} {mean.mean:.2f}" + (f" ± {mean.margin:.2f}" if mean.count > 1 else "")
