"""The progress of an index build on a terminal."""

from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from askance.retrieval.build import BuildProgress


class IndexProgress:
    """Shows how far a build is. How many documents will come is not known: the bar only moves."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[documents]:,} documents · {task.fields[passages]:,} passages"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("indexing", total=None, documents=0, passages=0)

    def __enter__(self) -> "IndexProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, step: "BuildProgress") -> None:
        """Take one step of the build."""
        self._bar.update(
            self._task, description=step.source, documents=step.documents, passages=step.passages
        )
