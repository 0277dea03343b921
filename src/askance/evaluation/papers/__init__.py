"""The tables and figures of the papers: what each prints, and how askance runs its rows.

A paper is a TOML file beside this module with the numbers that it prints. A table has columns (a
dataset and the metrics printed for it), models and rows. A row has a method with its settings, or the reason
why it can't be run, and the printed numbers: for each model a list with an entry for each column, in the
order of its metrics, which are named as in askance. Numbers that are not printed are left out at the end of
an entry. `average` as a dataset is the unweighted mean over the other columns. A figure is a table with an
axis: each of its rows is a curve, which is run once for each value of the axis.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

AVERAGE = "average"
PAPERS = ("dragin", "airrag", "selfrag")
JUDGED: Mapping[str, Literal["facts", "citations", "mauve"]] = {
    "mauve": "mauve",
    "factscore": "facts",
    "nli_citation_precision": "citations",
    "nli_citation_recall": "citations",
}
"""The metrics that a judge measures, each with the option of `askance judge` that names the judge."""
COUNTS = ("searches", "tokens", "valid_rollouts")
"""The columns that are counts and no scores: per question, its searches, the tokens read and written, and the
rollouts that found a new path to a valid answer."""
CANDIDATES = ("candidate_accuracy", "best_candidate_accuracy")
"""The accuracy of all answers that a search tree found, on average, and that of the best one."""
OF_TRACES = (*COUNTS, *CANDIDATES)
"""The columns that are read from traces and records, and are no metrics."""
_FORBID = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True, config=_FORBID)
class Column:
    """The numbers of a table that belong to one dataset.

    Attributes:
        metrics: The metrics and `OF_TRACES`.
        questions: The number of questions in the paper; 0 if it is not known or is that of the dataset.
        corpus: The corpus, if it is not that of the paper.
    """

    dataset: str
    metrics: tuple[str, ...]
    questions: int = 0
    corpus: str = ""
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=_FORBID)
class PaperRow:
    """A row of a table.

    Attributes:
        method: The method; empty if the row can't be run, for the reason `absent`.
        set: The parameters that differ from those of the table's preset.
        retriever: The retriever, if it is not that of the paper.
        encoder: The kind of encoder that must have made the vectors of the index.
        authors: The method that follows the authors' code, as `method`, and its parameters, as `set`.
        calls: The estimated number of model calls per question.
        printed: The printed numbers by model, with an entry for each column.
        series, at: The name of the curve and the value of the axis, in a point of a figure.
    """

    name: str
    method: str = ""
    set: Mapping[str, Any] = field(default_factory=dict)
    retriever: str = ""
    encoder: str = ""
    authors: Mapping[str, Any] = field(default_factory=dict)
    absent: str = ""
    calls: float = 0
    printed: Mapping[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    series: str = ""
    at: float | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=_FORBID)
class Axis:
    """The horizontal axis of a figure.

    Attributes:
        parameter: The parameter of all rows that varies.
        label: The meaning of the parameter, for readers of the figure.
    """

    parameter: str
    label: str
    values: tuple[int | float | str, ...]

    def points(self, row: PaperRow) -> Iterator[PaperRow]:
        """Yield a row for each point of the curve of a row."""
        for value in self.values:
            name = f"{row.name}, {self.parameter}={value}"
            given = {**row.set, self.parameter: value}
            yield replace(row, name=name, set=given, series=row.name, at=value)


@dataclass(frozen=True, slots=True, kw_only=True, config=_FORBID)
class PaperTable:
    """A table of a paper.

    Attributes:
        title: The name in the paper, such as "Table 2".
        aliases: The numbers of other tables whose numbers are in this one.
        models: The models that the paper used, as it names them.
        preset: The preset of the rows, in which ``{model}`` and ``{dataset}`` are replaced.
        headings, facts: The content of a table of words, which needs no run.
        axis: The axis of a figure.

    Raises:
        ValueError: Printed numbers belong to no model or column, or a row neither runs nor says why not.
    """

    title: str
    about: str
    aliases: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    preset: str = ""
    notes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    rows: tuple[PaperRow, ...] = ()
    headings: tuple[str, ...] = ()
    facts: tuple[tuple[str, ...], ...] = ()
    axis: Axis | None = None

    def __post_init__(self) -> None:
        sizes = [len(column.metrics) for column in self.columns]
        for row in self.rows:
            place = f"{self.title}, {row.name}"
            if bool(row.method) == bool(row.absent):
                raise ValueError(f"{place}: give a method, or the reason why there is none.")
            for model, cells in row.printed.items():
                if model not in self.models:
                    raise ValueError(f"{place}: {model} is no model of the table.")
                if len(cells) != len(sizes) or any(map(lambda cell, size: len(cell) > size, cells, sizes)):
                    raise ValueError(f"{place}, {model}: {cells} does not fit the columns.")

    @property
    def datasets(self) -> tuple[str, ...]:
        """The datasets of the columns."""
        return tuple(column.dataset for column in self.columns if column.dataset != AVERAGE)

    @property
    def judges(self) -> tuple[str, ...]:
        """The options of the judges that measure metrics of the table."""
        metrics = (metric for column in self.columns for metric in column.metrics)
        return tuple(dict.fromkeys(JUDGED[metric] for metric in metrics if metric in JUDGED))


@dataclass(frozen=True, slots=True, kw_only=True, config=_FORBID)
class Paper:
    """A paper and its tables by number.

    Attributes:
        percent: Whether scores are printed as percentages.
        selection: How the paper chose its questions: the first ones (limit) or a sample.
        options: The option of a dataset's file that reads the paper's questions alone, by dataset.
        settings: The settings of every run, so that no default of askance decides.
    """

    paper: str
    arxiv: str
    corpus: str
    selection: Literal["limit", "sample"]
    settings: Mapping[str, Any]
    tables: Mapping[str, PaperTable]
    percent: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()

    def scores(self, column: Column, cell: Sequence[float]) -> dict[str, float]:
        """Return the printed scores of a cell by metric, from 0 to 1; those of `COUNTS` are numbers."""
        pairs = zip(column.metrics, cell, strict=False)
        return {metric: value / self.unit(metric) for metric, value in pairs}

    def unit(self, metric: str) -> int:
        """Return what a printed value of a metric is divided by."""
        return 100 if self.percent and metric not in COUNTS else 1


@cache
def read_paper(name: str) -> Paper:
    """Return one of `PAPERS`."""
    text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
    return TypeAdapter(Paper).validate_python(tomllib.loads(text))


def columns_of(dataset: str) -> Iterator[tuple[Paper, PaperTable, int]]:
    """Yield each column with numbers of a dataset, as the paper, the table and the column's index."""
    for paper in map(read_paper, PAPERS):
        for table in paper.tables.values():
            for index, column in enumerate(table.columns):
                if column.dataset == dataset and any(
                    cells[index] for row in table.rows for cells in row.printed.values()
                ):
                    yield paper, table, index
