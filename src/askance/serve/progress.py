"""The progress of long work on a terminal."""

import time
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from askance.text.printable import printable

if TYPE_CHECKING:
    from askance.eval.harness import RunningMean, Standing
    from askance.retrieval.build import BuildProgress

OPEN_METRICS = {"exact_match": "EM", "f1": "F1"}
SPECIAL_METRICS = {"yes_no_accuracy": "accuracy", "choice_accuracy": "accuracy", "str_em": "STR-EM"}
"""Shown instead of those where they apply to every question."""


class _Bar:
    """A bar that is there from the first that is told of the work until its end, if there is a terminal;
    elsewhere a line for each stage of the work. `counted` shows fields of its task.
    """

    _every_seconds = 0.0
    """How often a line is written where there is no terminal."""

    def __init__(self, console: Console, counted: str, description: str = "", **fields: Any) -> None:
        self._console, self._shown_at = console, time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn(counted),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(description, **fields)
        self._stage = ""

    def __enter__(self) -> Self:
        return self

    def _update(self, **fields: Any) -> None:
        self._bar.update(self._task, **fields)
        self._bar.start()

    def _tell_stage(self, stage: str) -> None:
        if stage != self._stage and not self._console.is_terminal:
            self._print(stage, "dim")
        self._stage = stage

    def _print(self, line: str, style: str = "") -> None:
        self._shown_at = time.monotonic()
        self._console.print(line, style=style, markup=False, soft_wrap=True)

    def _is_due(self) -> bool:
        """Whether the next line is to be written."""
        return not self._console.is_terminal and time.monotonic() - self._shown_at >= self._every_seconds

    def _stopped(self, error: BaseException) -> str:
        """What to tell where the work was stopped by an error; may be empty."""
        return ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._bar.stop()
        if error is not None and (told := self._stopped(error)):
            self._print(told)


class IndexProgress(_Bar):
    """Shows how far a build is. How many documents will come is not known: the bar only moves."""

    def __init__(self, console: Console) -> None:
        counted = "{task.fields[documents]:,} documents · {task.fields[passages]:,} passages"
        super().__init__(console, counted, "indexing", total=None, documents=0, passages=0)

    def __call__(self, step: "BuildProgress") -> None:
        """Take one step of the build; how many passages are to be encoded is known."""
        name = (
            f"encoding {step.encoded:,} of {step.to_encode:,}" if step.to_encode else printable(step.source)
        )
        self._tell_stage(f"encoding {step.to_encode:,} passages" if step.to_encode else "reading documents")
        self._update(
            description=name,
            documents=step.documents,
            passages=step.passages,
            completed=step.encoded,
            total=step.to_encode or None,
        )


class CalibrationProgress(_Bar):
    """Shows how far a calibration is; a line stays for every value that has been tried."""

    def __init__(self, console: Console, knob: str, num_questions: int) -> None:
        super().__init__(console, "{task.completed}/{task.total} questions", total=num_questions)
        self._knob, self._num_questions = knob, num_questions

    def __call__(self, trial: int, value: float, done: int, searches: float | None) -> None:
        """Take one question of a trial; `searches` is their mean number once the trial is over."""
        name = f"trial {trial}, {self._knob}={value:g}"
        self._tell_stage(f"{name}: asking {self._num_questions:,} questions")
        self._update(description=name, completed=done)
        if searches is not None:
            self._print(f"{name}: {searches:.2f} searches a question", "dim")


class JudgingProgress(_Bar):
    """Shows how far the judging of a run is."""

    def __init__(self, console: Console, name: str) -> None:
        super().__init__(console, "{task.completed}/{task.total} answers", name, total=None)
        self._name = printable(name)

    def __call__(self, kind: str, done: int, total: int) -> None:
        """Take an answer that is judged."""
        self._tell_stage(f"{self._name}: judging the {kind} of {total:,} answers")
        self._update(description=f"{self._name}, {kind}", completed=done, total=total)


class EvaluationProgress(_Bar):
    """Shows how an evaluation stands: a bar on a terminal, elsewhere a line now and then.

    Args:
        name: of the run, where there are several.
        every_seconds: how often a line is written where there is no terminal, behind one at the start.
    """

    def __init__(self, console: Console, name: str = "", every_seconds: float = 30.0) -> None:
        super().__init__(console, "{task.fields[standing]}", name, total=None, standing="")
        self._name, self._every_seconds = name, every_seconds
        self._standing: Standing | None = None

    def _stopped(self, error: BaseException) -> str:
        done = _done(self._standing) if self._standing else ""
        return f"stopped at {done}: the same command goes on from there" if done else ""

    def __call__(self, standing: "Standing") -> None:
        """Show a standing."""
        if self._standing is None:
            self._tell_start(standing)
        self._standing = standing
        lines = standing_lines(standing)
        done, total = standing.num_finished, standing.num_questions
        self._update(completed=done, total=total, standing="\n".join(lines))
        if self._is_due():
            self._print(" · ".join(filter(None, (self._name, *lines))))

    def _tell_start(self, standing: "Standing") -> None:
        done, left = standing.num_finished, standing.num_questions - standing.num_finished
        if left:
            before = f", {done:,} done before" if done else ""
            name = f"{self._name}: " if self._name else ""
            self._tell_stage(f"{name}asking {left:,} questions{before}")


class TrainingStanding(Protocol):
    """How far a training is, as far as it is shown."""

    @property
    def step(self) -> int: ...
    @property
    def num_steps(self) -> int: ...
    @property
    def loss(self) -> float: ...
    @property
    def held_out(self) -> float | None: ...
    @property
    def tokens_per_second(self) -> float: ...
    @property
    def seconds_left(self) -> float: ...


class TrainingProgress(_Bar):
    """Shows how far a training is: a bar on a terminal, elsewhere a line now and then.

    Args:
        every_seconds: how often a line is written where there is no terminal.
    """

    def __init__(self, console: Console, every_seconds: float = 60.0) -> None:
        super().__init__(console, "{task.fields[told]}", "training", total=None, told="")
        self._every_seconds = every_seconds
        self._loss: float | None = None
        self._standing: TrainingStanding | None = None

    def _stopped(self, error: BaseException) -> str:
        if not isinstance(error, KeyboardInterrupt) or self._standing is None:
            return ""
        done = f"{self._standing.step:,}/{self._standing.num_steps:,}"
        return f"stopped at step {done}: the same command goes on from the last checkpoint"

    def __call__(self, standing: TrainingStanding) -> None:
        """Take one step."""
        if self._standing is None:
            told = (
                f"going on after step {standing.step - 1:,}/"
                if standing.step > 1
                else "training, steps to take: "
            )
            self._print(f"{told}{standing.num_steps:,}")
        self._standing = standing
        # Steps differ in what they learn: a mean over the last ones says more than the last one.
        self._loss = standing.loss if self._loss is None else 0.95 * self._loss + 0.05 * standing.loss
        told = training_line(standing, self._loss)
        self._update(completed=standing.step, total=standing.num_steps, told=told)
        if standing.held_out is not None or self._is_due():
            self._print(told)


def training_line(standing: TrainingStanding, loss: float) -> str:
    """Steps, loss, speed and the time left."""
    held_out = "" if standing.held_out is None else f"held out {standing.held_out:.3f}"
    left = timedelta(seconds=round(standing.seconds_left))
    parts = (
        f"step {standing.step:,}/{standing.num_steps:,}",
        f"loss {loss:.3f}",
        held_out,
        f"{standing.tokens_per_second:,.0f} tokens/s",
        f"{left} left",
    )
    return " · ".join(filter(None, parts))


def standing_lines(standing: "Standing") -> tuple[str, str]:
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


def _done(standing: "Standing") -> str:
    failed = f" · {standing.num_failures:,} failed" if standing.num_failures else ""
    retries = f" · {standing.num_retries:,} calls tried again" if standing.num_retries else ""
    return f"{standing.num_finished:,}/{standing.num_questions:,}{failed}{retries}"


def _running(title: str, mean: "RunningMean | None") -> str:
    if mean is None or not mean.count:
        return ""
    return f"{title} {mean.mean:.2f}" + (f" ± {mean.margin:.2f}" if mean.count > 1 else "")
