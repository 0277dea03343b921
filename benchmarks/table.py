"""A table of measurements with goals: printed, written as JSON to .bench/, and entered in a log."""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from askance.core.version import VERSION
from askance.storage.durable_files import write_atomically

_HEAD = ("what", "value", "unit", "ratio", "against", "goal")


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement.

    Attributes:
        ratio: The median divided by the median of `against`, measured in the same run.
        goal: The goal, and whether it is met; empty if there is no goal.
    """

    what: str
    median: float
    unit: str
    ratio: float | None = None
    against: str = ""
    goal: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return self.what, f"{self.median:,.2f}", self.unit, ratio, self.against, self.goal


def row(
    what: str,
    values: Sequence[float],
    unit: str,
    against: str = "",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Row:
    """Return a row with the median of the values, and whether the median meets the goal, if there is one."""
    median, goal = statistics.median(values), ""
    if at_least is not None:
        goal = f">= {at_least:g}: {'met' if median >= at_least else 'missed'}"
    if at_most is not None:
        goal = f"<= {at_most:g}: {'met' if median <= at_most else 'missed'}"
    return Row(what, median, unit, against=against, goal=goal)


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call of `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(rows: Iterable[Row], log: Path | None, about: str) -> None:
    """Print and store the table of measurements.

    Args:
        rows: The measurements, which are made as they are read.
        about: A note on what the numbers depend on besides the machine.
    """
    made, machine = list[Row](), f"{machine_here()}, {about}"
    path = Path(".bench") / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json"
    path.parent.mkdir(exist_ok=True)
    for each in rows:
        made.append(each)
        # Each row is printed and stored immediately: all take most of an hour, and none should be lost.
        print(" · ".join(filter(None, each.cells)), file=sys.stderr, flush=True)
        record = {"askance": VERSION, "machine": machine, "rows": [asdict(each) for each in made]}
        path.write_text(json.dumps(record, indent=1), encoding="utf-8")
    table = Table(*_HEAD, box=None, header_style="bold")
    for each in made:
        table.add_row(*each.cells)
    Console(width=150).print(table)
    if log is not None:
        before = log.read_text(encoding="utf-8") if log.exists() else "# Log\n"
        write_atomically(log, with_entry(before, made, machine))
    Console().print(f"{machine} → {path}")


def machine_here() -> str:
    """Return the number of cores, the processor, and the Python version.

    Only on Linux does the processor include its model.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
        processor = next(names, processor)
    return f"{cores} cores of {processor}, Python {platform.python_version()}"


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (titles, ["---"] * len(titles), *rows))


def with_entry(log: str, rows: Sequence[Row], machine: str) -> str:
    """Return a log with a new entry first."""
    entry = f"## {datetime.now(UTC):%Y-%m-%d}: benchmarks ({machine})"
    introduction, newest, others = log.partition("\n## ")
    table = markdown(_HEAD, [each.cells for each in rows])
    return f"{introduction.rstrip()}\n\n{entry}\n\n{table}\n{newest}{others}"
