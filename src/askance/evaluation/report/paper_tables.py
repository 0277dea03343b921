"""The tables and figures of a paper: what was measured beside what is printed.

They are in Markdown and rows of numbers; figures are also pictures.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from askance.core.trace import Expanded
from askance.evaluation.judging.judge_run import judged_scores, judged_so_far, run_scores
from askance.evaluation.judging.mauve import RANGE
from askance.evaluation.metrics.answers import accuracy
from askance.evaluation.papers import AVERAGE, COUNTS, JUDGED, OF_TRACES, Column, Paper, PaperRow, PaperTable
from askance.evaluation.report.charts import curves_chart
from askance.evaluation.report.tables import NONE, ResultTable, label
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, average_interval
from askance.evaluation.statistics.summaries import scores_of
from askance.methods.airrag.state import DA

Cell = tuple[str, str]
"""A cell of a table: the name of its row, and its dataset."""


@dataclass(frozen=True, slots=True)
class UsedModel:
    """A model that makes the runs of a table.

    Attributes:
        label: The name of the paper's model that it stands for; empty for the first of each row.
        spec: The specification.
    """

    label: str
    spec: str

    def in_rows(self, rows: Iterable[PaperRow]) -> list[tuple[PaperRow, str]]:
        """Return the rows that the model can stand in, each with the paper's model, if it has one."""
        return [
            (row, self.label or next(iter(row.printed), ""))
            for row in rows
            if not (self.label and row.printed) or self.label in row.printed
        ]


@dataclass(frozen=True, slots=True)
class ModelTable:
    """A table of a paper whose runs one model makes.

    Attributes:
        rows: Each row with the paper's model beside it.
        experiments: The name of the experiment of each cell that can be run.
        runs: The run of each cell that has one.
        remarks: The cells to which a remark applies, by what it says ("Not run") and the reason.
    """

    table: PaperTable
    model: UsedModel
    rows: Sequence[tuple[PaperRow, str]]
    experiments: dict[Cell, str] = field(default_factory=dict)
    runs: dict[Cell, RecordedRun] = field(default_factory=dict)
    remarks: dict[tuple[str, str], list[Cell]] = field(default_factory=lambda: defaultdict(list))

    def cells(self) -> Iterator[tuple[Cell, PaperRow, str, Column]]:
        """Yield each cell that a run can fill with its row, the paper's model beside it, and its column."""
        for row, beside in self.rows:
            for column in self.table.columns:
                if column.dataset != AVERAGE:
                    yield (row.name, column.dataset), row, beside, column

    def remark_judges(self) -> None:
        """Add who judged the runs, and how far a judge came that has not judged all answers."""
        for cell, _, _, column in self.cells():
            run = self.runs.get(cell)
            finished, begun = (run_scores(run), judged_so_far(run)) if run else ({}, {})
            for metric in column.metrics:
                kind = JUDGED.get(metric)
                if kind in finished:
                    self.remarks["Judged", f"{metric} by {finished[kind].judge}"].append(cell)
                elif run and kind in begun:
                    judge, num = begun[kind]
                    so_far = f"{judge} has judged {num} of {len(run.records)} answers"
                    self.remarks["Incomplete", f"{metric}: {so_far}: repeat its `askance judge`"].append(cell)


def result_table(paper: Paper, filled: ModelTable) -> tuple[ResultTable, list[dict[str, Any]]]:
    """Return a table of a paper, and the same numbers as rows."""
    table, axis = filled.table, filled.table.axis
    metrics = [(column.dataset, metric) for column in table.columns for metric in column.metrics]
    parameter, first = (axis.parameter, ("series", axis.label)) if axis else ("", ("row", "paper's model"))
    lines, numbers = list[tuple[str, ...]](), list[dict[str, Any]]()
    for row, beside in filled.rows:
        cells = list(_cells(paper, filled, row, beside))
        heads = (row.series, str(row.at)) if axis else (row.name, beside or NONE)
        lines.append((*heads, *(_text(paper, cell, has_printed=not axis) for cell in cells)))
        place = {"table": table.title, "row": row.name, "series": row.series, "axis": parameter, "at": row.at}
        numbers += [{**place, "model": filled.model.spec, "paper_model": beside, **cell} for cell in cells]
    mauve = f"; MAUVE: {RANGE}" if any(metric == "mauve" for _, metric in metrics) else ""
    note = (
        f"Cells: measured (95 % interval{mauve}){'' if axis else ' / printed'}"
        f"{', as percentages' if paper.percent else ''}. Failed questions count 0."
    )
    headings = [f"{dataset}, {label(metric)}" for dataset, metric in metrics]
    title = f"{table.title}: {table.about}"
    return ResultTable(title, (*first, *headings), tuple(lines), num_text_columns=2, note=note), numbers


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


def _cells(paper: Paper, filled: ModelTable, row: PaperRow, beside: str) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each cell of a row."""
    for index, column in enumerate(filled.table.columns):
        printed = paper.scores(column, row.printed[beside][index]) if beside in row.printed else {}
        datasets = filled.table.datasets if column.dataset == AVERAGE else (column.dataset,)
        of_cell = [filled.runs[row.name, each] for each in datasets if (row.name, each) in filled.runs]
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
    if metric in OF_TRACES:
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
    """Return one of `OF_TRACES` of a question.

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


def _text(paper: Paper, cell: Mapping[str, Any], has_printed: bool) -> str:
    """Return a cell in the paper's unit, such as "0.200 (0.044 to 0.481) / 0.187"."""
    unit, is_count = paper.unit(cell["metric"]), cell["metric"] in COUNTS
    digits = 2 if is_count else 1 if unit == 100 else 3
    measured = printed = NONE
    if cell["mean"] is not None:
        measured, low, high = (f"{unit * cell[each]:.{digits}f}" for each in ("mean", "low", "high"))
        measured += "" if is_count else f" ({low} to {high})"
    if cell["printed"] is not None:
        as_printed = f"{round(unit * cell['printed'], 6):g}"
        printed = f"{float(as_printed):.{max(digits, len(as_printed.partition('.')[2]))}f}"
    return f"{measured} / {printed}" if has_printed else measured
