"""Run every measurement, print a table, write the same numbers as JSON to .bench/."""

import json
import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from askance.core.version import VERSION
from benchmarks.measures import answering, decoding, indexing, starting


def main() -> None:
    rows = [row for measure in (starting, indexing, decoding, answering) for row in measure()]
    table = Table("what", "value", "unit", "ratio", "against", box=None, header_style="bold")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        table.add_row(row.what, f"{row.median:,.2f}", row.unit, ratio, row.against)
    Console(width=110).print(table)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    record = {"askance": VERSION, "machine": machine, "rows": [asdict(row) for row in rows]}
    folder = Path(".bench")
    folder.mkdir(exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json"
    path.write_text(json.dumps(record, indent=1), encoding="utf-8")
    Console().print(f"{machine} → {path}")


main()
