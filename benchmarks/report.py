"""Runs measurements, prints their table, and writes the same numbers as JSON to .bench/."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from askance.core.version import VERSION
from askance.runtime.durable import write_atomically
from benchmarks.measures import Row


def report(measures: Mapping[str, Callable[[], Iterator[Row]]], description: str) -> None:
    """Those of the measures that the command line names, or all; on request into a log, too."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("name", nargs="*", choices=[[], *measures], help="what to measure; all if not given")
    parser.add_argument("--log", type=Path, help="enter the table in this Markdown file, newest first")
    options = parser.parse_args()
    rows = list[Row]()
    for name in options.name or measures:
        for row in measures[name]():
            rows.append(row)
            # At once: all of them take most of an hour, and what has been measured should not be lost.
            print(" · ".join(filter(None, _cells(row))), file=sys.stderr, flush=True)
    table = Table("what", "value", "unit", "ratio", "against", box=None, header_style="bold")
    for row in rows:
        table.add_row(*_cells(row))
    Console(width=110).print(table)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    record = {"askance": VERSION, "machine": machine, "rows": [asdict(row) for row in rows]}
    folder = Path(".bench")
    folder.mkdir(exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json"
    path.write_text(json.dumps(record, indent=1), encoding="utf-8")
    if options.log is not None:
        before = options.log.read_text(encoding="utf-8") if options.log.exists() else "# Log\n"
        write_atomically(options.log, _with_entry(before, _entry(rows, machine)))
    Console().print(f"{machine} → {path}")


def _entry(rows: Sequence[Row], machine: str) -> str:
    head = f"## {datetime.now(UTC):%Y-%m-%d}: benchmarks ({machine})\n\n"
    lines = ["| what | value | unit | ratio | against |", "|---|---|---|---|---|"]
    return head + "\n".join([*lines, *(f"| {' | '.join(_cells(row))} |" for row in rows)]) + "\n"


def _with_entry(log: str, entry: str) -> str:
    """The log with one more entry, before all others: the newest stands first."""
    introduction, newest, others = log.partition("\n## ")
    return f"{introduction.rstrip()}\n\n{entry}{newest}{others}"


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return row.what, f"{row.median:,.2f}", row.unit, ratio, row.against
