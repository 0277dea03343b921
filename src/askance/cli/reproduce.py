"""The command that reproduces the tables and figures of papers."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from askance.cli.options import (
    MAX_FAILURES,
    MaxFailuresOption,
    NewCodeFlag,
    RetryFlag,
    by_name,
    with_settings,
)
from askance.configuration.build import ROLES, load_models
from askance.configuration.catalogue import DEFAULT_MODEL
from askance.configuration.presets import open_preset
from askance.configuration.reproduction import Reproduction, find_tables, missing_metric, rows_of, with_values
from askance.configuration.sources import SourcedConfig
from askance.core.errors import InputError, MissingAbility, UnknownName
from askance.core.safe_text import printable, printable_record
from askance.evaluation.papers import AVERAGE, PAPERS, Paper, PaperTable
from askance.evaluation.report.paper_tables import ModelTable, UsedModel, figure_files, result_table
from askance.evaluation.report.tables import ResultTable, Section
from askance.evaluation.report.writers import csv_text, markdown, markdown_line
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import RunOptions, run_grid
from askance.storage.trace_file import write_file
from askance.terminal.console import err, out, print_plain
from askance.terminal.progress import EvaluationProgress

Names = Annotated[list[str] | None, typer.Argument(metavar="TABLE")]
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
    max_failures: MaxFailuresOption = MAX_FAILURES,
    retry_failures: RetryFlag = False,
    accept_new_code: NewCodeFlag = False,
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
        roles=by_name("models", [f"{role}={spec}" for role, spec in given if role in ROLES]),
        settings={name: getattr(sourced.config, name) for name in SETTINGS if name in sourced.origins},
        scale=scale,
        preset=None if preset is None else open_preset(preset),
        authors=authors,
    )
    options = RunOptions(max_failures, retry_failures, accept_new_code, may_lack_abilities=True)
    filled = job.tables_by_model(chosen)
    code = _run(job, filled, folder, options) if dataset else 0
    sections, numbers = _sections(job, filled)
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


def _run(job: Reproduction, tables: Sequence[ModelTable], folder: Path | None, options: RunOptions) -> int:
    """Make or continue the runs of all cells that can be run, and return the exit code."""
    if folder is None:
        raise InputError("no folder is named for the runs: name one with --out FOLDER.")
    ready = job.prepare(tables)
    if not ready:
        reasons = "; ".join(dict.fromkeys(reason for each in tables for _, reason in each.remarks))
        raise InputError(f"no cell of these tables can be run: {reasons or 'they need none of the datasets'}")
    work = run_grid(ready, folder, load_models, options, lambda name: EvaluationProgress(err, name))
    results, code = asyncio.run(work), 0
    for each in tables:
        for cell, name in each.experiments.items():
            found = results[name]
            if isinstance(found, RecordedRun):
                each.runs[cell], num = found, len(found.records)
                if failed := [record.error for record in found.records if record.is_failure]:
                    code = max(code, int(len(failed) == num))
                    reason = f"{len(failed)} of {num} questions failed: {failed[0]:.300}"
                    each.remarks["Incomplete", reason].append(cell)
            elif isinstance(found, MissingAbility):
                each.remarks["Not run", str(found)].append(cell)
            else:
                code = max(code, found.exit_code)
                each.remarks["Incomplete", f"stopped: {found}"].append(cell)
        each.remark_judges()
    return code


def _sections(job: Reproduction, tables: Sequence[ModelTable]) -> tuple[list[Section], list[dict[str, Any]]]:
    """Return the sections of the page, and all numbers as rows."""
    sections, numbers = list[Section](), list[dict[str, Any]]()
    for each in tables:
        table = each.table
        if not table.rows:
            title = f"{table.title}: {table.about}"
            of_words = ResultTable(title, table.headings, table.facts, len(table.headings))
            sections.append(Section(table.title, (), table.notes, [of_words]))
            continue
        shown, values = result_table(job.paper, each)
        measured = {value["metric"] for value in values if value["mean"] is not None}
        caveats = (caveat for column in table.columns for caveat in column.caveats)
        remarks = [*job.paper.caveats, *table.notes, *caveats, *_remarks(job, each, measured)]
        title = f"{table.title}, {each.model.spec}"
        lines = [
            "\n".join(f"- {line}" for line in dict.fromkeys(given))
            for given in (_settings(job, each), remarks)
        ]
        sections.append(Section(title, lines[:1], lines[1:], [shown] if each.rows else []))
        numbers += values
    return sections, numbers


def _settings(job: Reproduction, filled: ModelTable) -> list[str]:
    """Return the model, the corpora and the questions of the runs beside those of the paper."""
    table, label = filled.table, filled.model.label
    beside = f", beside the paper's {label or 'model that each row names'}" if not table.axis else ""
    index = job.settings.get("index", "no index")
    retriever = job.settings.get("retriever", job.paper.settings["retriever"])
    asked = {dataset: f"{dataset} {len(run.records):,}" for (_, dataset), run in filled.runs.items()}
    numbers = [f"{column.dataset} {column.questions:,}" for column in table.columns if column.questions]
    corpora = dict.fromkeys(column.corpus or job.paper.corpus for column in table.columns)
    return [
        f"Model: {filled.model.spec}{beside}.",
        f"Corpus: {index}, by {retriever} unless a row has its own; the paper's: {'; '.join(corpora)}.",
        f"Questions: {', '.join(asked.values()) or 'none'}; the paper's: {', '.join(numbers)}.",
    ]


def _remarks(job: Reproduction, filled: ModelTable, measured: set[str]) -> list[str]:
    """Return the remarks about cells, and what else a table lacks, but for the metrics that were measured."""
    table, every_row = filled.table, ", ".join(row.name for row, _ in filled.rows)
    lines = [] if every_row else [f"No row of this table has the model {filled.model.label}."]
    for (what, reason), cells in filled.remarks.items():
        rows, datasets = (", ".join(dict.fromkeys(each)) for each in zip(*cells, strict=True))
        rows = "all rows" if rows == every_row else rows
        lines.append(markdown_line(f"{what}: {rows} on {datasets}: {reason}"))
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
