"""Run measurements, print their table, and write the same numbers as JSON to .bench/."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from askance.core.version import VERSION
from askance.storage.durable_files import write_atomically
from benchmarks.row import Row

_HEAD = ("what", "value", "unit", "ratio", "against", "goal")


def report(measures: Mapping[str, Callable[[], Iterator[Row]]], description: str) -> None:
    """Run the measurements named on the command line (by default all), and optionally log them."""
    options = parser(measures, description).parse_args()
    show({name: measures[name]() for name in options.name or measures}, options.log)


def parser(names: Iterable[str], description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all tables share."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("name", nargs="*", choices=[[], *names], help="what to measure; all if not given")
    made.add_argument("--log", type=Path, help="enter the table in this Markdown file, newest first")
    return made


def show(measured: Mapping[str, Iterable[Row]], log: Path | None, about: str = "") -> None:
    """Take all measurements in turn, then print and store the table.

    Args:
        about: A note on what the numbers depend on besides the machine.
    """
    rows = list[Row]()
    for each in measured.values():
        for row in each:
            rows.append(row)
            # Each row is printed immediately: all rows take most of an hour, and none should be lost.
            print(" · ".join(filter(None, _cells(row))), file=sys.stderr, flush=True)
    table = Table(*_HEAD, box=None, header_style="bold")
    for row in rows:
        table.add_row(*_cells(row))
    Console(width=150).print(table)
    machine = ", ".join(filter(None, (machine_here(), about)))
    record = {"askance": VERSION, "machine": machine, "rows": [asdict(row) for row in rows]}
    folder = Path(".bench")
    folder.mkdir(exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json"
    path.write_text(json.dumps(record, indent=1), encoding="utf-8")
    if log is not None:
        before = log.read_text(encoding="utf-8") if log.exists() else "# Log\n"
        write_atomically(log, _with_entry(before, _entry(rows, machine)))
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


def _entry(rows: Sequence[Row], machine: str) -> str:
    head = f"## {datetime.now(UTC):%Y-%m-%d}: benchmarks ({machine})\n\n"
    lines = [f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
    return head + "\n".join([*lines, *(f"| {' | '.join(_cells(row))} |" for row in rows)]) + "\n"


def _with_entry(log: str, entry: str) -> str:
    """Return the log with a new entry first."""
    introduction, newest, others = log.partition("\n## ")
    return f"{introduction.rstrip()}\n\n{entry}{newest}{others}"


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return row.what, f"{row.median:,.2f}", row.unit, ratio, row.against, row.goal
