"""The progress of long work on a terminal."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from askance.retrieval.build import BuildProgress


class _Bar:
    """A bar that is there while work is done, if there is a terminal. `counted` shows fields of its task."""

    def __init__(self, console: Console, counted: str, description: str = "", **fields: Any) -> None:
        self._console = console
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

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._bar.stop()


class IndexProgress(_Bar):
    """Shows how far a build is. How many documents will come is not known: the bar only moves."""

    def __init__(self, console: Console) -> None:
        counted = "{task.fields[documents]:,} documents · {task.fields[passages]:,} passages"
        super().__init__(console, counted, "indexing", total=None, documents=0, passages=0)

    def __call__(self, step: "BuildProgress") -> None:
        """Take one step of the build."""
        self._bar.update(
            self._task, description=step.source, documents=step.documents, passages=step.passages
        )


class CalibrationProgress(_Bar):
    """Shows how far a calibration is; a line stays for every value that has been tried."""

    def __init__(self, console: Console, knob: str, num_questions: int) -> None:
        super().__init__(console, "{task.completed}/{task.total} questions", total=num_questions)
        self._knob = knob

    def __call__(self, trial: int, value: float, done: int, searches: float | None) -> None:
        """Take one question of a trial; `searches` is their mean number once the trial is over."""
        name = f"trial {trial}, {self._knob}={value:g}"
        self._bar.update(self._task, description=name, completed=done)
        if searches is not None:
            told = f"{name}: {searches:.2f} searches a question"
            self._console.print(told, markup=False, style="dim", soft_wrap=True)
