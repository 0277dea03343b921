"""The command that reproduces the tables and figures of papers."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from askance.cli.options import NumberOption, with_settings
from askance.configuration.build import ROLES, load_models
from askance.configuration.catalogue import DEFAULT_MODEL
from askance.configuration.reproduction import (
    Reproduction,
    UsedModel,
    find_tables,
    missing_metric,
    rows_of,
    with_values,
)
from askance.configuration.sources import SourcedConfig
from askance.core.errors import AskanceError, InputError, MissingAbility, UnknownName
from askance.core.safe_text import printable_record
from askance.evaluation.papers import AVERAGE, PAPERS, Paper, PaperTable
from askance.evaluation.report.paper_tables import figure_files, result_table
from askance.evaluation.report.tables import ResultTable, Section
from askance.evaluation.report.writers import csv_text, markdown
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import RunOptions, run_grid
from askance.storage.trace_file import write_file
from askance.terminal.console import err, out, print_plain
from askance.terminal.progress import EvaluationProgress

Names = Annotated[list[str] | None, typer.Argument(metavar="TABLE")]
Named = dict[str, PaperTable]
STOPPED = "stopped: "
"""How the reason begins for which a cell is not complete, though it could be run."""


@with_settings("index", "retriever", "rerank", "encoder", "cache", "in_flight")
def reproduce(
    sourced: SourcedConfig,
    paper: Annotated[str | None, typer.Argument()] = None,
    tables: Names = None,
    dataset: Annotated[list[str] | None, typer.Option(metavar="NAME:FILE")] = None,
    model: Annotated[list[str] | None, typer.Option(metavar="[NAME=]SPEC")] = None,
    scale: Annotated[int | None, typer.Option(min=1, metavar="N")] = None,
    axis: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUES")] = None,
    preset: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    authors: Annotated[bool, typer.Option("--authors")] = False,
    folder: Annotated[Path | None, typer.Option("--out")] = None,
    lists: Annotated[bool, typer.Option("--list")] = False,
    seconds_per_call: Annotated[float | None, typer.Option(min=0, metavar="S")] = None,
    max_failures: NumberOption = 20,
    retry_failures: Annotated[bool, typer.Option("--retry-failures")] = False,
    accept_new_code: Annotated[bool, typer.Option("--accept-new-code")] = False,
) -> None:
    """Reproduce tables and figures of a paper: run every cell that can be run, beside the printed number.

    Without a dataset, it only shows the printed numbers. If the command is stopped, run it again to continue.

    Args:
        paper: dragin, airrag or selfrag; without one, the tables of all papers are listed.
        tables: The numbers of tables and names of figures, such as figure3; by default all of the paper.
        dataset: The file of a dataset, as NAME:FILE, or as NAME=SPEC for one in another format.
        model: The model, by default bundled; NAME= says for which model of the paper, or for which role.
        scale: Ask only N questions for each cell.
        axis: The values at which figures are drawn, such as passages=1,5; repeat it for another axis.
        preset: A preset whose parameters go before the paper's, such as thresholds for your model.
        authors: Run the authors' code, too, which needs the laboratory.
        folder: The folder of the runs and of tables.md and tables.csv.
        lists: List the tables and what each needs, and run nothing.
        seconds_per_call: The seconds of a model call, from which --list estimates the hours.
        max_failures: Stop a cell once more than N of its questions have failed.
        retry_failures: Ask the failed questions again.
        accept_new_code: Continue runs that were started with other code; settings.json records the change.

    Examples:
        askance reproduce dragin 2
        askance reproduce airrag figure3 --axis passages=1,5
    """
    if paper is None or lists:
        _list(PAPERS if paper is None else [paper], tables, scale, seconds_per_call)
        return
    read, chosen = find_tables(paper, tables)
    chosen = with_values(chosen, axis or ())
    labels = {label for table in read.tables.values() for label in table.models}
    given = [_split(spec, labels | set(ROLES)) for spec in model or [DEFAULT_MODEL]]
    job = Reproduction(
        paper=read,
        datasets=dict(_dataset(spec, read.tables.values()) for spec in dataset or ()),
        models=tuple(UsedModel(label, spec) for label, spec in given if label not in ROLES),
        roles={role: spec for role, spec in given if role in ROLES},
        settings={value.name: value.value for value in sourced.layers[-1]},
        scale=scale,
        preset=preset,
        authors=authors,
    )
    options = RunOptions(max_failures, retry_failures, accept_new_code, may_lack_abilities=True)
    runs = _run(job, chosen, folder, options) if dataset else {}
    sections, numbers = _sections(job, chosen, runs)
    text = "\n\n".join([f"# {read.paper} (arXiv {read.arxiv})", *map(markdown, sections)]) + "\n"
    print(text, end="")
    if folder is not None:
        write_file(folder / "tables.md", text)
        write_file(folder / "tables.csv", csv_text(printable_record(numbers)))
        for name, picture in figure_files(numbers) if find_spec("matplotlib") else ():
            write_file(folder / name, picture)
        print_plain(err, f"tables: {folder / 'tables.md'} and tables.csv", "dim")
    if any(reason.startswith(STOPPED) for reason in job.reasons.values()):
        raise typer.Exit(1)


def _split(spec: str, labels: Iterable[str]) -> tuple[str, str]:
    """Return the label and the specification of "LABEL=SPEC", or of a specification without a known label."""
    label, mark, rest = spec.partition("=")
    return (label, rest) if mark and label in labels else ("", spec)


def _dataset(spec: str, tables: Iterable[PaperTable]) -> tuple[str, str]:
    """Return the name and the specification of "NAME:FILE" or "NAME=SPEC"."""
    known = {name for table in tables for name in table.datasets}
    name, sign, rest = re.split("([=:?]|$)", spec, maxsplit=1)
    if name not in known:
        raise UnknownName("dataset", name, known, place="of the paper's tables (write NAME:FILE)")
    return name, rest if sign == "=" else spec


def _run(
    job: Reproduction, tables: Named, folder: Path | None, options: RunOptions
) -> dict[str, RecordedRun]:
    """Make or continue the runs of all cells that can be run, and return them by name."""
    if folder is None:
        raise InputError("no folder is named for the runs: name one with --out FOLDER.")
    ready = job.prepare(tables)
    if not ready:
        reasons = "; ".join(dict.fromkeys(job.reasons.values()))
        raise InputError(f"no cell of these tables can be run: {reasons}")
    work = run_grid(ready, folder, load_models, options, lambda name: EvaluationProgress(err, name))
    results = asyncio.run(work)
    for cell, name in job.runs.items():
        if isinstance(error := results[name], AskanceError):
            lacks = isinstance(error, MissingAbility)
            job.reasons[cell] = str(error) if lacks else f"{STOPPED}{error}"
    return {name: run for name, run in results.items() if isinstance(run, RecordedRun)}


def _sections(
    job: Reproduction, tables: Named, runs: Mapping[str, RecordedRun]
) -> tuple[list[Section], list[dict[str, Any]]]:
    """Return the sections of the page, and all numbers as rows."""
    sections, numbers = list[Section](), list[dict[str, Any]]()
    made = [(cell, name) for cell, name in job.runs.items() if name in runs]
    for table in tables.values():
        if not table.rows:
            title = f"{table.title}: {table.about}"
            of_words = ResultTable(title, table.headings, table.facts, len(table.headings))
            sections.append(Section(table.title, (), table.notes, [of_words]))
        for model in job.models if table.rows else ():
            pairs = ((row, model.printed_of(row)) for row in rows_of(table, job.authors))
            rows = [(row, printed) for row, printed in pairs if printed is not None]
            found = {cell[2:]: runs[name] for cell, name in made if cell[:2] == (table.title, model.name)}
            shown, values = result_table(job.paper, table, model.spec, rows, found)
            notes = [*table.notes, *(each for column in table.columns for each in column.caveats)]
            remarks = [*job.paper.caveats, *notes, *_absences(job, table, model)]
            beside = f"the paper's {model.label}" if model.label else "the paper's model that each row names"
            settings = [f"Model: {model.spec}{'' if table.axis else f', beside {beside}'}."]
            settings += _corpora(job, table)
            lines = ["\n".join(f"- {each}" for each in dict.fromkeys(each)) for each in (settings, remarks)]
            sections.append(Section(f"{table.title}, {model.spec}", lines[:1], lines[1:], [shown]))
            numbers += values
    return sections, numbers


def _corpora(job: Reproduction, table: PaperTable) -> list[str]:
    """Return the paper's corpora and questions beside those of the runs."""
    index = job.settings.get("index", "no index")
    retriever = job.settings.get("retriever", job.paper.settings["retriever"])
    scale = f"at most {job.scale:,} a cell" if job.scale else "as many as the paper's"
    numbers = [f"{column.dataset} {column.questions:,}" for column in table.columns if column.questions]
    corpora = dict.fromkeys(column.corpus or job.paper.corpus for column in table.columns)
    return [
        f"Corpus: {index}, by {retriever} unless a row has its own; the paper's: {'; '.join(corpora)}.",
        f"Questions: {scale}; the paper's: {', '.join(numbers)}.",
    ]


def _absences(job: Reproduction, table: PaperTable, model: UsedModel) -> list[str]:
    """Return what a table lacks, with the reasons."""
    cells: dict[str, list[Sequence[str]]] = {}
    for (title, name, *place), reason in job.reasons.items():
        if (title, name) == (table.title, model.name):
            cells.setdefault(reason, []).append(place)
    lines = list[str]()
    for reason, places in cells.items():
        rows, datasets = (", ".join(dict.fromkeys(each)) for each in zip(*places, strict=True))
        rows = "all rows" if rows == ", ".join(row.name for row in rows_of(table, job.authors)) else rows
        what = "Incomplete" if reason.startswith(STOPPED) else "Not run"
        lines.append(f"{what}: {rows} on {datasets}: {reason}")
    if AVERAGE in {column.dataset for column in table.columns} and job.datasets:
        num_given = len(set(table.datasets) & job.datasets.keys())
        lines.append(f"Averages: over {num_given} of {len(table.datasets)} datasets, which weigh the same")
    for metric in dict.fromkeys(metric for column in table.columns for metric in column.metrics):
        if reason := missing_metric(metric):
            lines.append(f"Not measured: {metric}: {reason}")
    return lines


def _list(
    papers: Sequence[str], tables: Sequence[str] | None, scale: int | None, seconds: float | None
) -> None:
    """List the tables of papers with what each needs."""
    for name in papers:
        paper, chosen = find_tables(name, tables)
        for number, table in chosen.items():
            out.print(Text.assemble((f"{name} {number}", "bold"), f"  {table.title}: {table.about}"))
            if table.rows:
                print_plain(out, f"  {_needs(paper, table, scale, seconds)}")
    print_plain(out, "calls: those of the model, estimated", "dim")


def _needs(paper: Paper, table: PaperTable, scale: int | None, seconds: float | None) -> str:
    """Return what a table needs: datasets, an index, judges, calls and hours, and the paper's models."""
    questions = [
        (row.calls, min(filter(None, (scale, column.questions)), default=0))
        for row in rows_of(table, authors=False)
        for column in table.columns
        if row.method and column.dataset in table.datasets
    ]
    calls = sum(each * number for each, number in questions)
    retrievers = dict.fromkeys(row.retriever or paper.settings["retriever"] for row in table.rows)
    needs = [*table.datasets, f"an index for {' and '.join(retrievers)}"]
    needs += [f"a judge of {each}" for each in table.judges]
    hours = "" if seconds is None else f", {calls * seconds / 3600:,.1f} hours"
    each = "" if len(table.models) == 1 else "each "
    cost = f"{each}{len(questions)} cells, {calls:,.0f} calls{hours}"
    return f"{', '.join(needs)}; models: {', '.join(table.models)}; {cost}"
