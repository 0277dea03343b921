"""The page: per dataset what was run, what came out and at what cost, how sure that is, what others got."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from askance.ask import models_told
from askance.core.errors import MissingExtra
from askance.core.version import VERSION
from askance.eval.paired_runs import Comparisons
from askance.eval.published import caveats, published_table
from askance.eval.report.charts import frontier, frontier_chart, histogram_charts, points_of
from askance.eval.run_groups import RunGroup
from askance.eval.tables import ResultTable, label, remarks_of, setting_lines, tables_by_heading
from askance.text.printable import printable

MOST_FAILURES = 20
"""So many failed questions of a run are told one by one."""


@dataclass(frozen=True, slots=True)
class Reported:
    """Runs over the same questions, and all that was found about them."""

    group: RunGroup
    found: Comparisons


def report_page(reported: Sequence[Reported], made_on: str) -> str:
    """The whole page; `made_on` is a date.

    Nothing in it is fetched from anywhere, and nothing of a question or answer is anything but text. Where
    matplotlib is not installed, the page says so in place of its charts.
    """
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        keep_trailing_newline=True,
    )
    return templates.get_template("report.html.j2").render(
        sections=[_section(each) for each in reported],
        num_runs=sum(len(each.group.runs) for each in reported),
        made_on=made_on,
        version=VERSION,
        counted=lambda number, what: f"{number:,} {what}{'s' * (number != 1)}",
        grouped=lambda rows: [(name, list(of_name)) for name, of_name in groupby(rows, lambda row: row[0])],
    )


def _printable(value: object) -> object:
    """What an expression of the template writes, made safe to show; markup is safe already."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _section(reported: Reported) -> dict[str, Any]:
    """What the template shows of runs over the same questions; empty parts are left out there."""
    group, found = reported.group, reported.found
    return {
        "found": found,
        "remarks": remarks_of(found),
        "settings": setting_lines(found),
        "tables": tables_by_heading(found)
        | {"Runs": [_runs_table(group)], "Failed questions": list(_failure_tables(group))},
        "published": published_table(group, found.summaries),
        "caveats": caveats(group.runs[0].settings.dataset_name),
    } | _charts(group, found)


def _charts(group: RunGroup, found: Comparisons) -> dict[str, Any]:
    main = next(iter(found.metrics), "")
    points, metric = points_of(found, main), label(main)
    searches = {
        name: [record.usage.searches for record in run.records]
        for name, run in zip(group.names, group.runs, strict=True)
    }
    shown: dict[str, Any] = {
        "metric": metric,
        "points": points if len(points) > 1 else [],
        "best": frontier(points),
        "has_searches": any(map(any, searches.values())),
        "missing": "",
        "frontier": None,
        "histograms": {},
    }
    try:
        if shown["points"]:
            shown["frontier"] = frontier_chart(points, metric)
        if shown["has_searches"]:
            shown["histograms"] = histogram_charts(searches)
    except MissingExtra:
        shown["missing"] = "Charts are drawn where matplotlib is installed (the extra “plots”)."
    return shown


def _runs_table(group: RunGroup) -> ResultTable:
    rows = [
        (
            name,
            models_told(run.settings.models, run.settings.precisions),
            run.settings.index or "none",
            run.settings.started_at[:16].replace("T", " "),
            run.settings.machine,
            run.settings.askance,
            f"{run.settings.seed}",
            f"{len(run.records)} of {run.settings.num_questions}",
            f"{sum(record.is_failure for record in run.records)}",
        )
        for name, run in zip(group.names, group.whole, strict=True)
    ]
    headings = ("run", "model", "index", "began (UTC)", "machine", "askance", "seed", "finished", "failed")
    versions = group.whole[0].settings.versions.items()
    note = f"Versions: {', '.join(f'{package} {version}' for package, version in versions)}."
    return ResultTable("Runs", headings, tuple(rows), num_text_columns=6, note=note)


def _failure_tables(group: RunGroup) -> Iterator[ResultTable]:
    rows = [
        (f"{name} ({len(failed)})", f"{record.id}: {record.question}", record.error)
        for name, run in zip(group.names, group.runs, strict=True)
        if (failed := [record for record in run.records if record.is_failure])
        for record in failed[:MOST_FAILURES]
    ]
    if rows:
        note = f"They count as wrong. Of each run the first {MOST_FAILURES} at most are shown."
        headings = ("run (failed)", "question", "error")
        yield ResultTable(
            "Failed questions", headings, tuple(rows), num_text_columns=3, note=note, is_grouped=True
        )
