"""The command that reproduces the tables and figures of papers."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from askance.cli.options import NumberOption, with_settings
from askance.configuration.build import ROLES, load_models
from askance.configuration.catalogue import DEFAULT_MODEL
from askance.configuration.presets import open_preset
from askance.configuration.reproduction import (
    Cell,
    Reproduction,
    UsedModel,
    find_tables,
    missing_metric,
    rows_of,
    with_values,
)
from askance.configuration.sources import SourcedConfig
from askance.core.errors import InputError, MissingAbility, UnknownName
from askance.core.safe_text import printable, printable_record
from askance.evaluation.papers import AVERAGE, PAPERS, Paper, PaperTable
from askance.evaluation.report.paper_tables import Runs, figure_files, result_table
from askance.evaluation.report.tables import ResultTable, Section
from askance.evaluation.report.writers import csv_text, markdown, markdown_line
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import RunOptions, run_grid
from askance.storage.trace_file import write_file
from askance.terminal.console import err, out, print_plain
from askance.terminal.progress import EvaluationProgress

Names = Annotated[list[str] | None, typer.Argument(metavar="TABLE")]
Named = dict[str, PaperTable]
INCOMPLETE = "incomplete: "
"""How the reason begins for which a cell is not complete, though it could be run."""
SETTINGS = ("index", "retriever", "rerank", "encoder", "cache", "in_flight")
"""The settings that every cell takes from options, files and the environment."""


@with_settings(*SETTINGS)
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
    given = [_split(spec.removeprefix("answer="), labels | set(ROLES)) for spec in model or ()]
    models = dict.fromkeys(UsedModel(label, spec) for label, spec in given if label not in ROLES)
    named = [_dataset(spec, read) for spec in dataset or ()]
    if len(dict(named)) < len(named):
        raise InputError(f"--dataset {' '.join(dataset or ())}: give each dataset once.")
    job = Reproduction(
        paper=read,
        datasets=dict(named),
        models=tuple(models) or (UsedModel("", DEFAULT_MODEL),),
        roles={role: spec for role, spec in given if role in ROLES},
        settings={name: getattr(sourced.config, name) for name in SETTINGS if name in sourced.origins},
        scale=scale,
        preset=None if preset is None else open_preset(preset),
        authors=authors,
    )
    options = RunOptions(max_failures, retry_failures, accept_new_code, may_lack_abilities=True)
    runs, code = _run(job, chosen, folder, options) if dataset else ({}, 0)
    sections, numbers = _sections(job, chosen, runs)
    text = printable("\n\n".join([f"# {read.paper} (arXiv {read.arxiv})", *map(markdown, sections)]) + "\n")
    print(text, end="")
    if folder is not None:
        with suppress(OSError):  # write_file says why it can't
            folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / "tables.md", text)
        write_file(folder / "tables.csv", csv_text(printable_record(numbers)))
        for name, picture in figure_files(numbers) if find_spec("matplotlib") else ():
            write_file(folder / name, picture)
        print_plain(err, f"tables: {folder / 'tables.md'} and tables.csv", "dim")
    raise typer.Exit(code)


def _split(spec: str, labels: Iterable[str]) -> tuple[str, str]:
    """Return the label and the specification of "LABEL=SPEC", or of a specification without a known label."""
    label, mark, rest = spec.partition("=")
    return (label, rest) if mark and label in labels else ("", spec)


def _dataset(spec: str, paper: Paper) -> tuple[str, str]:
    """Return the name and the specification of "NAME:FILE" or "NAME=SPEC"."""
    known = {name for table in paper.tables.values() for name in table.datasets}
    name, sign, rest = re.split("([=:?]|$)", spec, maxsplit=1)
    if name not in known:
        raise UnknownName("dataset", name, known, place="of the paper's tables (write NAME:FILE)")
    if sign == "=" and "reading" in paper.settings:
        raise InputError(f"--dataset {spec}: answers are read by the paper's rules, so write {name}:FILE.")
    return name, rest if sign == "=" else spec


def _run(
    job: Reproduction, tables: Named, folder: Path | None, options: RunOptions
) -> tuple[dict[Cell, RecordedRun], int]:
    """Make or continue the runs of all cells that can be run, and return them by cell, with the exit code."""
    if folder is None:
        raise InputError("no folder is named for the runs: name one with --out FOLDER.")
    ready = job.prepare(tables)
    if not ready:
        reasons = "; ".join(dict.fromkeys(job.reasons.values())) or "they need none of the datasets"
        raise InputError(f"no cell of these tables can be run: {reasons}")
    work = run_grid(ready, folder, load_models, options, lambda name: EvaluationProgress(err, name))
    results = asyncio.run(work)
    runs, code = dict[Cell, RecordedRun](), 0
    for cell, name in job.runs.items():
        found = results[name]
        if isinstance(found, RecordedRun):
            runs[cell], num = found, len(found.records)
            if failed := [record.error for record in found.records if record.is_failure]:
                code = max(code, int(len(failed) == num))
                job.reasons[cell] = f"{INCOMPLETE}{len(failed)} of {num} questions failed: {failed[0]:.300}"
        elif isinstance(found, MissingAbility):
            job.reasons[cell] = str(found)
        else:
            code = max(code, found.exit_code)
            job.reasons[cell] = f"{INCOMPLETE}stopped: {found}"
    return runs, code


def _sections(
    job: Reproduction, tables: Named, runs: Mapping[Cell, RecordedRun]
) -> tuple[list[Section], list[dict[str, Any]]]:
    """Return the sections of the page, and all numbers as rows."""
    sections, numbers = list[Section](), list[dict[str, Any]]()
    for table in tables.values():
        if not table.rows:
            title = f"{table.title}: {table.about}"
            of_words = ResultTable(title, table.headings, table.facts, len(table.headings))
            sections.append(Section(table.title, (), table.notes, [of_words]))
        for model in job.models if table.rows else ():
            rows = job.rows(table, model)
            found = {cell[2:]: run for cell, run in runs.items() if cell[:2] == (table.title, model)}
            shown, values = result_table(job.paper, table, model.spec, rows, found)
            measured = {value["metric"] for value in values if value["mean"] is not None}
            notes = [*table.notes, *(each for column in table.columns for each in column.caveats)]
            remarks = [*job.paper.caveats, *notes, *_absences(job, table, model, measured)]
            beside = f"the paper's {model.label}" if model.label else "the paper's model that each row names"
            beside = "" if table.axis else f", beside {beside}"
            settings = [f"Model: {model.spec}{beside}.", *_corpora(job, table, found)]
            lines = ["\n".join(f"- {each}" for each in dict.fromkeys(each)) for each in (settings, remarks)]
            tables_shown = [shown] if rows else []
            sections.append(Section(f"{table.title}, {model.spec}", lines[:1], lines[1:], tables_shown))
            numbers += values
    return sections, numbers


def _corpora(job: Reproduction, table: PaperTable, found: Runs) -> list[str]:
    """Return the paper's corpora and questions beside those of the runs."""
    index = job.settings.get("index", "no index")
    retriever = job.settings.get("retriever", job.paper.settings["retriever"])
    asked = {dataset: f"{dataset} {len(run.records):,}" for (_, dataset), run in found.items()}
    numbers = [f"{column.dataset} {column.questions:,}" for column in table.columns if column.questions]
    corpora = dict.fromkeys(column.corpus or job.paper.corpus for column in table.columns)
    return [
        f"Corpus: {index}, by {retriever} unless a row has its own; the paper's: {'; '.join(corpora)}.",
        f"Questions: {', '.join(asked.values()) or 'none'}; the paper's: {', '.join(numbers)}.",
    ]


def _absences(job: Reproduction, table: PaperTable, model: UsedModel, measured: set[str]) -> list[str]:
    """Return what a table lacks, with the reasons, but for the metrics that were measured."""
    cells: dict[str, list[Sequence[str]]] = {}
    for (title, used, *place), reason in job.reasons.items():
        if (title, used) == (table.title, model):
            cells.setdefault(reason, []).append(place)
    every_row = ", ".join(row.name for row, _ in job.rows(table, model))
    lines = [] if every_row else [f"No row of this table has the model {model.label}."]
    for reason, places in cells.items():
        rows, datasets = (", ".join(dict.fromkeys(each)) for each in zip(*places, strict=True))
        rows = "all rows" if rows == every_row else rows
        what = "Incomplete" if reason.startswith(INCOMPLETE) else "Not run"
        lines.append(markdown_line(f"{what}: {rows} on {datasets}: {reason.removeprefix(INCOMPLETE)}"))
    if AVERAGE in {column.dataset for column in table.columns} and job.datasets:
        num_given = len(set(table.datasets) & job.datasets.keys())
        lines.append(f"Averages: over {num_given} of {len(table.datasets)} datasets, which weigh the same")
    for metric in dict.fromkeys(metric for column in table.columns for metric in column.metrics):
        if metric not in measured and (reason := missing_metric(metric)):
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
    uncounted = {each.dataset for each in table.columns if not (scale or each.questions)} - {AVERAGE}
    retrievers = dict.fromkeys(row.retriever or paper.settings["retriever"] for row in table.rows)
    needs = [*table.datasets, f"an index for {' and '.join(retrievers)}"]
    needs += [f"a judge of {each}" for each in table.judges]
    hours = "" if seconds is None else f", {calls * seconds / 3600:,.1f} hours"
    each = "" if len(table.models) == 1 else "each "
    cost = ", without ".join([f"{each}{len(questions)} cells, {calls:,.0f} calls{hours}", *uncounted])
    return f"{', '.join(needs)}; models: {', '.join(table.models)}; {cost}"
