"""The page: per dataset what was run, what came out and at what cost, how sure that is, what others got."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from askance.ask import models_told
from askance.core.version import VERSION
from askance.eval.paired_runs import Comparisons
from askance.eval.report.elements import element, elements, html_text
from askance.eval.report.frontier import frontier, frontier_chart, points_of
from askance.eval.report.histogram import histograms
from askance.eval.report.html_tables import table_box
from askance.eval.report.published_table import published_part
from askance.eval.run_groups import RunGroup
from askance.eval.tables import (
    ResultTable,
    cost_table,
    counted,
    difference_tables,
    label,
    other_metrics_tables,
    part_tables,
    question_tables,
    remarks_of,
    results_table,
    setting_lines,
)

MOST_FAILURES = 20
"""So many failed questions of a run are told one by one."""

_FAILED = "Failed questions"


@dataclass(frozen=True, slots=True)
class Reported:
    """Runs over the same questions, and all that was found about them."""

    group: RunGroup
    found: Comparisons


def report_page(reported: Sequence[Reported], made_on: str) -> str:
    """The whole page; `made_on` is a date.

    Nothing in it is fetched from anywhere, and nothing of a question or answer is anything but text.
    """
    num_runs = sum(len(each.group.runs) for each in reported)
    datasets = f"{len(reported)} dataset{'s' * (len(reported) != 1)}"
    summary = (
        f"{num_runs} run{'s' * (num_runs != 1)} over {datasets}; written on {made_on} by askance {VERSION}."
    )
    css = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", "Evaluation report"),
        element("style", css),
    )
    body = element(
        "body",
        element(
            "header",
            element("h1", "Evaluation report"),
            element("p", summary, class_="lead"),
            *_contents(reported),
        ),
        element("main", *(_section(number, each) for number, each in enumerate(reported, start=1))),
    )
    return html_text(element("html", head, body, lang="en"))


def _contents(reported: Sequence[Reported]) -> Iterator[Element]:
    if len(reported) > 1:
        links = (
            element("li", element("a", each.found.dataset, href=f"#dataset-{number}"))
            for number, each in enumerate(reported, start=1)
        )
        yield element("nav", element("ul", *links), aria_label="Datasets")


def _section(number: int, reported: Reported) -> Element:
    group, found = reported.group, reported.found
    return element(
        "section",
        element("h2", found.dataset, id=f"dataset-{number}"),
        element("p", f"{counted(found.num_questions)}.", class_="lead"),
        *(element("p", remark, class_="remark") for remark in remarks_of(found)),
        *_headed("Runs", [_runs_table(group)]),
        *_settings_part(found),
        *_headed("Results", [results_table(found), *other_metrics_tables(found)]),
        *_headed("Cost", [cost_table(found)]),
        *_frontier_part(found),
        *_searches_part(group),
        *_headed("Differences between runs", list(difference_tables(found))),
        *_headed("By kind and number of hops", list(part_tables(found))),
        *published_part(group, found),
        *_headed(_FAILED, list(_failure_tables(group))),
        *_headed("Questions that differ most", list(question_tables(found))),
    )


def _headed(heading: str, tables: Sequence[ResultTable]) -> list[Element]:
    """Nothing where there are no tables."""
    return [element("h3", heading), *(table_box(table, heading) for table in tables)] if tables else []


def _settings_part(found: Comparisons) -> Iterator[Element]:
    if setting_lines(found):
        yield element("p", "Settings:")
        yield element("ul", *elements("li", setting_lines(found)), class_="settings")


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


def _frontier_part(found: Comparisons) -> Iterator[Element]:
    points = points_of(found, found.metrics[0]) if found.metrics else []
    if len(points) < 2:
        return
    metric, best = label(found.metrics[0]), frontier(points)
    legend = [
        element("li", f"{'●' if point in best else '○'} {point.name}", value=point.number) for point in points
    ]
    caption = (
        f"{metric} against tokens computed a question, with 95 % intervals. ● and dashed line: the frontier, "
        "where no other run is as good at the same cost or less."
    )
    drawing = element("div", frontier_chart(points, metric), element("ol", *legend), class_="chart")
    yield element("figure", drawing, element("figcaption", caption, class_="note"))


def _searches_part(group: RunGroup) -> Iterator[Element]:
    searches = {
        name: [record.usage.searches for record in run.records]
        for name, run in zip(group.names, group.runs, strict=True)
    }
    if any(map(any, searches.values())):
        yield element("h3", "Searches a question")
        yield element(
            "p", "Share of questions by number of searches, all charts with the same scales.", class_="note"
        )
        yield element("div", *histograms(searches), class_="small")


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
        yield ResultTable(_FAILED, headings, tuple(rows), num_text_columns=3, note=note, is_grouped=True)
