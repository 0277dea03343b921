"""The tables and figures of a paper: what was measured beside what is printed.

They are in Markdown and rows of numbers; figures are also pictures.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from askance.core.trace import Expanded
from askance.evaluation.judging.judge_run import judged_scores
from askance.evaluation.metrics.answers import accuracy
from askance.evaluation.papers import AVERAGE, CANDIDATES, COUNTS, JUDGED, Paper, PaperRow, PaperTable
from askance.evaluation.report.charts import curves_chart
from askance.evaluation.report.tables import NONE, ResultTable, label
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, average_interval
from askance.evaluation.statistics.summaries import scores_of
from askance.methods.airrag.state import DA

Runs = Mapping[tuple[str, str], RecordedRun]
"""The runs by the name of the row and the dataset."""


def result_table(
    paper: Paper, table: PaperTable, model: str, rows: Sequence[tuple[PaperRow, str]], runs: Runs
) -> tuple[ResultTable, list[dict[str, Any]]]:
    """Return a table of a paper, and the same numbers as rows.

    Args:
        model: The model of the runs.
        rows: Each row with the paper's model beside it.
    """
    headings = [f"{column.dataset}, {label(metric)}" for column in table.columns for metric in column.metrics]
    lines, numbers = list[tuple[str, ...]](), list[dict[str, Any]]()
    axis = table.axis.parameter if table.axis else ""
    for row, beside in rows:
        cells = list(_cells(paper, table, row, beside, runs))
        texts = (_text(paper, cell) for cell in cells)
        if axis:
            lines.append((row.series, str(row.at), *(text.removesuffix(f" / {NONE}") for text in texts)))
        else:
            lines.append((row.name, beside or NONE, *texts))
        place = {"table": table.title, "row": row.name, "series": row.series, "axis": axis, "at": row.at}
        numbers += [{**place, "model": model, "paper_model": beside, **cell} for cell in cells]
    note = (
        f"Cells: measured (95 % interval){'' if axis else ' / printed'}"
        f"{', as percentages' if paper.percent else ''}. Failed questions count 0."
    )
    heads = ("series", table.axis.label) if table.axis else ("row", "paper's model")
    title = f"{table.title}: {table.about}"
    return ResultTable(title, (*heads, *headings), tuple(lines), num_text_columns=2, note=note), numbers


def figure_files(numbers: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the name and the SVG of a picture for each figure, model and dataset with measured numbers.

    Args:
        numbers: The rows of `result_table`.
    """
    pictures: dict[tuple[str, ...], dict[str, dict[str, dict[str, MeanInterval]]]] = {}
    for each in numbers:
        if each["axis"] and each["mean"] is not None:
            key = each["table"], each["model"], each["dataset"], each["axis"]
            curves = pictures.setdefault(key, {}).setdefault(label(each["metric"]), {})
            mean = MeanInterval(each["mean"], each["low"], each["high"], each["num_questions"])
            curves.setdefault(each["series"], {})[str(each["at"])] = mean
    for (title, model, dataset, axis), panels in pictures.items():
        name = ", ".join((title, dataset, model[-100:]))
        values = [*dict.fromkeys(str(each["at"]) for each in numbers if each["table"] == title)]
        chart = curves_chart(name, axis, values, panels)
        yield f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.svg", chart


def _cells(
    paper: Paper, table: PaperTable, row: PaperRow, beside: str, runs: Runs
) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each cell of a row."""
    for index, column in enumerate(table.columns):
        printed = paper.scores(column, row.printed[beside][index]) if beside in row.printed else {}
        datasets = table.datasets if column.dataset == AVERAGE else (column.dataset,)
        of_cell = [runs[row.name, each] for each in datasets if (row.name, each) in runs]
        for metric in column.metrics:
            mean = _measured(of_cell, metric)
            yield {
                "dataset": column.dataset,
                "metric": metric,
                "printed": printed.get(metric),
                **dict.fromkeys(("mean", "low", "high", "num_questions")),
                **({} if mean is None else asdict(mean)),
                "failures": sum(record.is_failure for run in of_cell for record in run.records),
                "runs": " ".join(str(run.folder) for run in of_cell),
            }


def _measured(runs: Sequence[RecordedRun], metric: str) -> MeanInterval | None:
    """Return the mean of the means of runs; None if a run has no such number.

    Counts get no interval: both of its ends are the mean.
    """
    if metric in JUDGED:
        return judged_scores(runs[0]).get(metric) if len(runs) == 1 else None
    if metric in (*COUNTS, *CANDIDATES):
        groups = [[_of_trace(run, record, metric) for record in run.records] for run in runs]
    else:
        groups = [list(scores_of(run.records, metric).values()) for run in runs]
    if not groups or not all(groups):
        return None
    if metric in COUNTS:
        mean = fmean(map(fmean, groups))
        return MeanInterval(mean, mean, mean, sum(map(len, groups)))
    return average_interval(groups)


def _of_trace(run: RecordedRun, record: Record, name: str) -> float:
    """Return one of `COUNTS` or `CANDIDATES` of a question.

    Without a tree, the given answer is the only candidate.
    """
    if name == "searches":
        return record.usage.searches
    if name == "tokens":
        return record.usage.tokens
    nodes = (event for event in run.trace(record) if isinstance(event, Expanded))
    ends = [node for node in nodes if "reward" in node.numbers and not node.rejected]
    if name == "valid_rollouts":
        return sum(end.action != DA and end.numbers["visits"] > 0 for end in ends)
    scores = [accuracy(end.text, record.golds) or 0.0 for end in ends] or [record.scores["accuracy"] or 0.0]
    return fmean(scores) if name == "candidate_accuracy" else max(scores)


def _text(paper: Paper, cell: Mapping[str, Any]) -> str:
    """Return a cell in the paper's unit, such as "0.200 (0.044 to 0.481) / 0.187"."""
    unit = paper.unit(cell["metric"])
    digits = 2 if cell["metric"] in COUNTS else 1 if unit == 100 else 3
    printed = NONE
    if cell["printed"] is not None:
        as_printed = f"{round(unit * cell['printed'], 6):g}"
        printed = f"{float(as_printed):.{max(digits, len(as_printed.partition('.')[2]))}f}"
    if cell["mean"] is None:
        return f"{NONE} / {printed}"
    mean, low, high = (f"{unit * cell[each]:.{digits}f}" for each in ("mean", "low", "high"))
    interval = "" if cell["metric"] in COUNTS else f" ({low} to {high})"
    return f"{mean}{interval} / {printed}"
