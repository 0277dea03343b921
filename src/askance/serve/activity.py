"""What a command is doing while there is nothing else to see."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from askance.core.activity import Advance
from askance.text.printable import printable


class Activities:
    """Shows what is being done: on a terminal in a line that goes when it is over, elsewhere in one that stays.

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
        if not self._console.is_terminal:
            self._console.print(what, style="dim", markup=False, soft_wrap=True)
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
