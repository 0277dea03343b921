"""The tables of a paper with what was measured beside what is printed, in Markdown and as rows of numbers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from askance.evaluation.judging.judge_run import judged_scores
from askance.evaluation.papers import AVERAGE, JUDGED, Paper, PaperRow, PaperTable
from askance.evaluation.report.tables import NONE, ResultTable, label
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, average_interval
from askance.evaluation.statistics.summaries import scores_of

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
    for row, beside in rows:
        cells = list(_cells(paper, table, row, beside, runs))
        lines.append((row.name, beside or NONE, *(_text(paper, cell) for cell in cells)))
        numbers += [
            {"table": table.title, "row": row.name, "model": model, "paper_model": beside, **cell}
            for cell in cells
        ]
    note = (
        f"Cells: measured (95 % interval) / printed{', as percentages' if paper.percent else ''}. "
        f"Failed questions count 0."
    )
    title, heads = f"{table.title}: {table.about}", ("row", "paper's model", *headings)
    return ResultTable(title, heads, tuple(lines), num_text_columns=2, note=note), numbers


def _cells(
    paper: Paper, table: PaperTable, row: PaperRow, beside: str, runs: Runs
) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each cell of a row."""
    for index, column in enumerate(table.columns):
        printed = paper.scores(column, row.printed[beside][index]) if beside else {}
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

    The number of searches is a cost, so it gets no interval: both of its ends are the mean.
    """
    if metric in JUDGED:
        return judged_scores(runs[0]).get(metric) if len(runs) == 1 else None
    groups = [list(scores_of(run.records, metric).values()) for run in runs]
    if metric == "searches":
        counts = [record.usage.searches for run in runs for record in run.records]
        return MeanInterval(fmean(counts), fmean(counts), fmean(counts), len(counts)) if counts else None
    if not groups or not all(groups):
        return None
    return average_interval(groups)


def _text(paper: Paper, cell: Mapping[str, Any]) -> str:
    """Return a cell in the paper's unit, such as "0.200 (0.044 to 0.481) / 0.187"."""
    unit = paper.unit(cell["metric"])
    digits = 2 if cell["metric"] == "searches" else 1 if unit == 100 else 3
    printed = NONE
    if cell["printed"] is not None:
        as_printed = f"{round(unit * cell['printed'], 6):g}"
        printed = f"{float(as_printed):.{max(digits, len(as_printed.partition('.')[2]))}f}"
    if cell["mean"] is None:
        return f"{NONE} / {printed}"
    mean, low, high = (f"{unit * cell[each]:.{digits}f}" for each in ("mean", "low", "high"))
    interval = "" if cell["metric"] == "searches" else f" ({low} to {high})"
    return f"{mean}{interval} / {printed}"
