r"""Run tables 1 to 5 of the AirRAG paper on your data and models, with averages and independent paths.

python -m studies.airrag_scaling.tables --dataset hotpotqa:FILE --index DIR --out FOLDER
python -m studies.airrag_scaling.tables --table 1 5 --dataset 2wikimultihopqa:FILE musique:FILE \
    --index DIR --model Qwen2.5-14B-Instruct=hf:FOLDER --sample 1000 --out FOLDER

`tables.toml` has the rows. The row of independent paths below each AirRAG row answers by a vote of as many
paths as take the same tokens: a part of the questions gets one path more. Where the tokens differ by more
than 5 %, the row says so. What a table of the paper has and this one can't have is listed with the reason.
FOLDER/tables.md and FOLDER/tables.json have the tables, and FOLDER/runs has a run folder for each row. The
same command continues a stopped run. It exits with 1 if a row has no result.
"""

import argparse
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from askance.configuration.build import load_models
from askance.configuration.catalogue import DEFAULT_MODEL
from askance.configuration.grid import Grid, Table
from askance.configuration.methods import method_class
from askance.core.errors import AskanceError, GridError, InputError, UnknownName
from askance.evaluation.run.record import Record
from askance.evaluation.run.runner import LoadModels, loading_once
from askance.evaluation.statistics.summaries import scores_of
from askance.methods.airrag.method import Airrag
from askance.storage.durable_files import write_atomically
from studies.airrag_scaling.equal_tokens import paths_at_equal_tokens
from studies.airrag_scaling.results import average_interval, num_tokens
from studies.shared import markdown, parser_of, try_runs

MAX_DIFFERENCE = 0.05
"""The greatest difference between the tokens of independent paths and those of the row above, as a share."""
MOST_PATHS = 64
NONE = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a table.

    Attributes:
        method: The method; empty if the row can't be run.
        l_max: The limit of input tokens per question, if the preset's does not apply.
        set: Parameters that differ from those of the preset.
        preset: The preset, if not that of the table; empty for none.
        paper: What the paper prints as the average, by the models of the table.
        absent: The reason why the row can't be run.
    """

    name: str
    method: str = ""
    l_max: int | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    paper: Sequence[str] = ()
    absent: str = ""

    @property
    def is_airrag(self) -> bool:
        """Return whether the row is AirRAG or AirRAG-Lite."""
        return bool(self.method) and issubclass(method_class(self.method), Airrag)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A table of the paper.

    Attributes:
        least_paths: The least number of independent paths (see `tables.toml`).
        absent_datasets: How a dataset may be given that has no reader of its own.
    """

    title: str
    datasets: Sequence[str]
    metrics: Sequence[str]
    models: Sequence[str]
    corpus: str
    preset: str
    rows: Sequence[Row]
    least_paths: int = 1
    absent_datasets: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def grid_table(self, row: Row, **changed: Any) -> tuple[str, Table]:
        """Return the name and the table of a grid for a row, whose name depends on its settings alone."""
        preset = self.preset if row.preset is None else row.preset
        parameters = {**({"l_max": row.l_max} if row.l_max else {}), **row.set, **changed}
        given = [f"{name}={value}" for name, value in parameters.items()]
        name = _folder_name(",".join(filter(None, [row.method, preset, *given])))
        return name, {
            "method": row.method,
            "set": parameters,
            **({"preset": preset} if preset else {}),
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """A row with the records of each dataset.

    Attributes:
        num_paths: The mean number of independent paths by dataset; empty for other rows.
        difference: The tokens of independent paths beside those of the row above, as a share.
        reason: The reason why there are no records.
    """

    name: str = ""
    paper: Sequence[str] = ()
    records: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    num_paths: Mapping[str, float] = field(default_factory=dict)
    difference: float | None = None
    reason: str = ""
    is_stopped: bool = False


Answers = Callable[[str, Table, str], Sequence[Record]]
"""A function that makes a run, given its name, its table of a grid, and the dataset."""


def paper_tables() -> dict[str, PaperTable]:
    """Return the tables of the paper by number."""
    content = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))
    return {
        number: PaperTable(**{**table, "rows": [Row(**row) for row in table["rows"]]})
        for number, table in content.items()
    }


def measure(table: PaperTable, datasets: Sequence[str], answers: Answers) -> list[Measured]:
    """Return all rows of a table, each AirRAG row followed by one of independent paths at equal tokens."""
    measured = []
    for row in table.rows:
        if row.absent:
            measured.append(Measured(row.name, row.paper, reason=row.absent))
            continue
        measured.append(_tried(row.name, row.paper, partial(_row, table, row, datasets, answers)))
        if row.is_airrag and measured[-1].records:
            paths = partial(_paths, table, row, measured[-1].records, answers)
            measured.append(_tried(f"{row.name}, independent paths", (), paths))
    return measured


def _tried(name: str, paper: Sequence[str], work: Callable[[], Measured]) -> Measured:
    """Return the row that `work` makes with its name, or the reason why it has no result."""
    try:
        return replace(work(), name=name, paper=paper)
    except GridError:
        raise
    except AskanceError as error:
        return Measured(name, paper, reason=str(error), is_stopped=True)


def _row(table: PaperTable, row: Row, datasets: Sequence[str], answers: Answers) -> Measured:
    return Measured(records={dataset: answers(*table.grid_table(row), dataset) for dataset in datasets})


def _paths(table: PaperTable, row: Row, above: Mapping[str, Sequence[Record]], answers: Answers) -> Measured:
    """Return the answers of independent paths with as many tokens as the row above."""
    records, numbers = dict[str, list[Record]](), dict[str, float]()
    for dataset, tree in above.items():

        def paths(number: int, dataset: str = dataset) -> Sequence[Record]:
            changed = {"search": "paths", "verifier": "vote", "rollouts": number}
            return answers(*table.grid_table(row, **changed), dataset)

        wanted = fmean(map(num_tokens, tree))
        records[dataset], numbers[dataset] = paths_at_equal_tokens(
            paths, num_tokens, wanted, least=table.least_paths, most=MOST_PATHS
        )
    tokens, base = _mean_tokens(records), _mean_tokens(above)
    return Measured(records=records, num_paths=numbers, difference=tokens / base - 1)


def _mean_tokens(records: Mapping[str, Sequence[Record]]) -> float:
    """Return the tokens per question, averaged over the datasets."""
    return fmean(fmean(map(num_tokens, each)) for each in records.values())


def table_text(table: PaperTable, rows: Sequence[Measured], about: Mapping[str, str]) -> str:
    """Return a table in Markdown, with what is absent below it.

    Args:
        about: The sentences on what is absent or differs from the paper, by its name.
    """
    datasets = list(next((row.records for row in rows if row.records), {}))
    share = "" if len(datasets) == len(table.datasets) else f" of {len(datasets)} of {len(table.datasets)}"
    head = ["method", *table.datasets, f"Average{share}", "95 % interval", "tokens", "beside the row above"]
    head += [*(f"paper, {model}" for model in table.models), "failed"]
    lines = [_cells(table, row) for row in rows]
    absent = [f"- {name}: {reason}" for name, reason in about.items()]
    absent += [
        f"- {row.name}: {'stopped: ' if row.is_stopped else ''}{row.reason}" for row in rows if row.reason
    ]
    metrics = "/".join(table.metrics)
    return (
        f"Cells are {metrics}, times 100. The average gives every dataset the same weight; the interval is "
        f"that of its {table.metrics[0]}. Tokens are those read and written per question.\n\n"
        f"{markdown(head, lines)}\n\nAbsent, or other than in the paper:\n\n" + "\n".join(absent)
    )


def _cells(table: PaperTable, row: Measured) -> list[str]:
    paper = [*row.paper, *([NONE] * (len(table.models) - len(row.paper)))]
    if not row.records:
        return [row.name, *[NONE] * (len(table.datasets) + 4), *paper, NONE]
    numbers = numbers_of_row(table, row)
    cells = [_percent(numbers["datasets"].get(dataset, {}), table.metrics) for dataset in table.datasets]
    first = numbers["average"].get(table.metrics[0])
    interval = f"{100 * first['low']:.1f} to {100 * first['high']:.1f}" if first else NONE
    name = row.name
    if row.num_paths:
        name += f" ({fmean(row.num_paths.values()):.2f})"
    beside = NONE if row.difference is None else f"{row.difference:+.1%}"
    if row.difference is not None and abs(row.difference) > MAX_DIFFERENCE:
        beside += ", **not equal**"
    average = _percent(numbers["average"], table.metrics)
    tokens = f"{numbers['tokens']:,.0f}"
    failed = f"{numbers['failures']} of {numbers['questions']}"
    return [name, *cells, average, interval, tokens, beside, *paper, failed]


def _percent(numbers: Mapping[str, Mapping[str, float]], metrics: Sequence[str]) -> str:
    if not numbers:
        return NONE
    return "/".join(f"{100 * numbers[each]['mean']:.1f}" if each in numbers else NONE for each in metrics)


def numbers_of_row(table: PaperTable, row: Measured) -> dict[str, Any]:
    """Return the numbers of a row as JSON values."""
    if not row.records:
        return {"method": row.name, "absent": row.reason}
    scores = {
        dataset: {metric: list(scores_of(records, metric).values()) for metric in table.metrics}
        for dataset, records in row.records.items()
    }
    found = {
        dataset: {name: asdict(average_interval([values])) for name, values in of.items() if values}
        for dataset, of in scores.items()
    }
    average = {
        metric: asdict(average_interval([of[metric] for of in scores.values()]))
        for metric in table.metrics
        if all(of[metric] for of in scores.values())
    }
    records = [record for each in row.records.values() for record in each]
    return {
        "method": row.name,
        "datasets": found,
        "average": average,
        "tokens": _mean_tokens(row.records),
        "paths": dict(row.num_paths),
        "tokens beside the row above": row.difference,
        "questions": len(records),
        "failures": sum(record.is_failure for record in records),
    }


def main(arguments: list[str] | None = None) -> None:
    options, tables = _parser().parse_args(arguments), paper_tables()
    for number in options.table:
        if number not in tables:
            raise UnknownName("table", number, tables, place="in --table")
    datasets = dict(_labelled(spec, None) for spec in options.dataset)
    known = {label for table in tables.values() for label in table.models}
    models = dict(_labelled(spec, known) for spec in options.model)
    load, parts, kept, is_stopped = loading_once(load_models), list[str](), dict[str, Any](), False
    for number in options.table:
        table = tables[number]
        asked = [name for name in table.datasets if name in datasets]
        if not asked:
            raise InputError(
                f"table {number} has none of the given datasets: give --dataset {table.datasets[0]}:FILE."
            )
        parts.append(f"## {table.title}")
        methods = dict(table.grid_table(row) for row in table.rows if not row.absent)
        asked_of = {name: datasets[name] for name in asked}
        _grid(options, asked_of, models, methods).prepare()  # before any question
        for label, spec in models.items():
            answers = _answers(options, datasets, label, spec, load)
            rows = measure(table, asked, answers)
            about = absences(table, asked, models, options)
            parts.append(f"### {label}\n\n{table_text(table, rows, about)}")
            kept.setdefault(number, {})[label] = [numbers_of_row(table, row) for row in rows]
            is_stopped |= any(row.is_stopped for row in rows)
    options.out.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(["# The tables of the AirRAG paper", *parts]) + "\n"
    write_atomically(options.out / "tables.md", text)
    write_atomically(options.out / "tables.json", json.dumps(kept, indent=1) + "\n")
    print(text)
    if is_stopped:
        raise SystemExit(1)


def absences(
    table: PaperTable, asked: Sequence[str], models: Mapping[str, str], options: argparse.Namespace
) -> dict[str, str]:
    """Return what a table lacks or has otherwise than the paper, with the reason."""
    found = {
        name: "; ".join(filter(None, ["no --dataset was given for it", table.absent_datasets.get(name, "")]))
        for name in table.datasets
        if name not in asked
    }
    found |= {
        name: f"no --model {name}=SPEC was given, so its cells are the paper's alone."
        for name in table.models
        if name not in models
    }
    found["corpus"] = f"the paper's is {table.corpus}; this one is {options.index}, by {options.retriever}."
    found |= {f"note {number}": note for number, note in enumerate(table.notes, start=1)}
    return found


def _answers(
    options: argparse.Namespace, datasets: Mapping[str, str], label: str, spec: str, load: LoadModels
) -> Answers:
    """Return the function that makes the runs with a model, or continues them."""

    def answers(name: str, table: Table, dataset: str) -> Sequence[Record]:
        grid = _grid(options, {dataset: datasets[dataset]}, {label: spec}, {name: table})
        ((_, run),) = try_runs(grid.prepare(), options.out / "runs", load).items()
        if isinstance(run, AskanceError):
            raise run
        return run.records

    return answers


def _grid(
    options: argparse.Namespace,
    datasets: Mapping[str, str],
    models: Mapping[str, str],
    methods: Mapping[str, Table],
) -> Grid:
    """Return the grid of methods on datasets, both with their specifications by name, with models."""
    index = {} if options.index is None else {"index": str(options.index)}
    return Grid(
        common={**index, "retriever": options.retriever, "sample": options.sample},
        datasets={name: {"questions": spec} for name, spec in datasets.items()},
        models={_folder_name(label): {"answer": spec} for label, spec in models.items()},
        methods=methods,
    )


def _labelled(spec: str, labels: set[str] | None) -> tuple[str, str]:
    """Return the label and the specification in ``LABEL=SPEC``, or in ``SPEC``, which may have a "=" itself.

    Args:
        labels: The known labels; None if any word may be one.
    """
    label, mark, rest = spec.partition("=")
    if mark and (label in labels if labels is not None else re.fullmatch(r"\w+", label)):
        return label, rest
    return (spec if labels is not None else spec.partition(":")[0]), spec


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(__doc__)
    parser.add_argument("--table", nargs="+", default=list(paper_tables()), help="numbers of tables; all")
    parser.add_argument(
        "--dataset", nargs="+", required=True, metavar="[NAME=]SPEC", help="as NAME:FILE, or webqa=jsonl:FILE"
    )
    parser.add_argument(
        "--model", nargs="+", default=[DEFAULT_MODEL], metavar="[NAME=]SPEC", help="NAME: as in the paper"
    )
    parser.add_argument("--index", type=Path, help="folder made by `askance index`")
    parser.add_argument("--retriever", default="bm25", help="bm25, dense or hybrid")
    parser.add_argument("--sample", type=int, default=1000, help="questions of each dataset")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the tables")
    return parser


def _folder_name(text: str) -> str:
    """Return `text` with "-" in place of characters that a folder's name can't have."""
    return re.sub(r"[^A-Za-z0-9_.,+=-]+", "-", text)


if __name__ == "__main__":
    main()
