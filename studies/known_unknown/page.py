"""The page of the study, with its tables, plots and traces.

OUT/page/known-and-unknown.md, and the plots beside it
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from math import isnan
from pathlib import Path

from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.roc import RocArea, shown_area
from askance.storage.durable_files import write_atomically
from studies.figures import render
from studies.known_unknown.analysis import Row, scores_of
from studies.known_unknown.plots import auc_plot, curve_plot
from studies.known_unknown.results import DRAGIN, FLARE_NUMBER, QFS, Results, gate
from studies.known_unknown.runs import MAX_SEARCHES
from studies.known_unknown.study import DOCUMENTS
from studies.known_unknown.world import World
from studies.shared import in_points, with_interval

NAME = "known-and-unknown"
_SHOWN_CURVES = 4
_TERMINAL = {"COLUMNS": "110", "NO_COLOR": "1"}


def write_page(out: Path, world: World, results: Results, runs: Mapping[str, RecordedRun]) -> Path:
    """Write the page and its plots, and return the path of the page."""
    folder = out / "page"
    folder.mkdir(exist_ok=True)
    best = sorted(results.areas, key=lambda name: -results.areas[name][1].area)[:_SHOWN_CURVES]
    write_atomically(folder / f"{NAME}-auc.svg", auc_plot(results.areas_by_exposures))
    for documents in DOCUMENTS:
        methods = {
            name: (row.searches, row.accuracy.mean)
            for name, row in results.rows[documents].items()
            if row.searches <= 1.5
        }
        curves = {name: results.curves[documents][name] for name in best}
        plot = curve_plot(f"Accuracy against searches, {documents} documents", curves, methods)
        write_atomically(folder / f"{NAME}-{documents}.svg", plot)
    traces = {
        title: _trace(runs, wanted).replace(f"{out.resolve()}/", "").replace(f"{out}/", "")
        for title, wanted in _TRACES.items()
    }
    text = render(
        Path(__file__).with_name("page.md.j2"),
        {"mean": with_interval, "area": _area, "points": _points},
        results=results,
        gate=gate(results),
        world=world,
        traces=traces,
        name=NAME,
        documents=DOCUMENTS,
        max_searches=MAX_SEARCHES,
        missed=" ".join(row.condition for row in gate(results) if not row.is_met),
        best=results.best_adaptive,
        queries_overlap=results.queries[QFS].high >= max(each.low for each in results.queries.values()),
        below_chance=min(results.areas_by_exposures[FLARE_NUMBER].items())[1].high < 0.5,
    )
    path = folder / f"{NAME}.md"
    write_atomically(path, text)
    return path


def _area(area: RocArea) -> str:
    return "" if isnan(area.area) else shown_area(area)


def _points(row: Row) -> str:
    return in_points(row.difference, unit="")


Wanted = Callable[[Record, float, float], bool]
"""Whether a record is an example, by its score and the score of one search for the same question."""

_TRACES: Mapping[str, Wanted] = {
    "Known, and kept": lambda record, own, single: (
        own == 1 and record.kind == "32 fresh" and not record.usage.searches
    ),
    "Unknown, and found": lambda record, own, single: (
        own == 1 and record.kind == "0 fresh" and record.usage.searches > 0
    ),
    "Stale, and resisted": lambda record, own, single: (
        own == 1 and single == 0 and record.kind in ("32 stale", "16 stale") and not record.usage.searches
    ),
}


def _trace(runs: Mapping[str, RecordedRun], wanted: Wanted) -> str:
    """Return the trace of the first question of DRAGIN's run that is an example, or an empty string."""
    run, single = runs[f"stale/{DRAGIN}"], scores_of(runs["stale/single"])
    own = scores_of(run)
    for record in run.records:
        if wanted(record, own[record.id], single[record.id]):
            command = [sys.executable, "-m", "askance", "trace", str(run.folder), "--question", record.id]
            environment = {**os.environ, **_TERMINAL}
            shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
            return "\n".join(line.rstrip() for line in shown.stdout.strip().splitlines())
    return ""
