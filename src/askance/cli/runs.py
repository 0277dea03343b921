"""The commands that read runs: merge or compare them, write a report, and export them to other formats."""

import dataclasses
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from askance.cli.options import JsonFlag, OutOption, write_out
from askance.configuration.evaluation import find_dataset
from askance.core.errors import InputError
from askance.core.safe_text import json_line, printable_record
from askance.evaluation.metrics.prices import read_prices
from askance.evaluation.report import export as formats
from askance.evaluation.report import sheet as sheets
from askance.evaluation.report import writers
from askance.evaluation.report.outcomes import inert_threshold, outcome_table
from askance.evaluation.report.tables import Section, sections_of
from askance.evaluation.report.trees import TreeFormat, tree_rows
from askance.evaluation.run.merging import merge_runs
from askance.evaluation.run.recorded_run import RecordedRun, read_run
from askance.evaluation.statistics.across_datasets import Averages, average_groups
from askance.evaluation.statistics.paired_runs import compare_group
from askance.evaluation.statistics.run_groups import base_indices, group_runs
from askance.storage.trace_file import check_writable
from askance.terminal.console import err, out, print_plain
from askance.terminal.tables import print_tables
from askance.viewer.report_page import Reported, report_page

RunsArgument = Annotated[list[Path], typer.Argument(metavar="RUN")]
AllPairsFlag = Annotated[bool, typer.Option("--all-pairs")]
CommonFlag = Annotated[bool, typer.Option("--common")]
TreeFormatOption = Annotated[TreeFormat, typer.Option("--format")]
QuestionsOption = Annotated[int, typer.Option(min=0, metavar="N")]


def compare(
    runs: RunsArgument,
    base: str | None = None,
    all_pairs: AllPairsFlag = False,
    metric: list[str] | None = None,
    common: CommonFlag = False,
    price: list[str] | None = None,
    questions: QuestionsOption = 0,
    as_json: JsonFlag = False,
    as_csv: Annotated[bool, typer.Option("--csv")] = False,
    as_latex: Annotated[bool, typer.Option("--latex")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown")] = False,
) -> None:
    """Compare runs over the same questions, with confidence intervals and p-values.

    Args:
        runs: Run folders written by `askance eval`.
        base: The run that the others are compared with, by folder or name; by default the first.
        all_pairs: Compare every two runs with each other.
        metric: A metric to compare by; the option may be repeated. By default, the main metrics are used.
        common: Compare only the questions that all runs have finished.
        price: A price as NAME=PRICE; repeat the option for prompt and generated (per million tokens), search,
            and currency.
        questions: Show the N questions that differ most, for each comparison.
        as_csv: Print all numbers as CSV.
        as_latex: Print LaTeX, which needs the package booktabs.
        as_markdown: Print Markdown.

    Examples:
        askance compare runs/single runs/dragin
        askance compare runs/single runs/dragin --questions 5 --markdown
    """
    if as_json + as_csv + as_latex + as_markdown > 1:
        raise InputError("--json, --csv, --latex and --markdown exclude each other: give one of them.")
    how: dict[str, Any] = {"metrics": metric or (), "all_pairs": all_pairs, "num_questions": questions}
    reported, averages = _reported(runs, base, common, price, **how)
    for each in reported:
        for name, run in zip(each.group.names, each.group.runs, strict=True):
            if remark := inert_threshold(run):
                print_plain(err, f"{name}: {remark}", "yellow")
    found = [each.found for each in reported]
    sections = printable_record(list(sections_of(found, averages)))
    if as_json:
        print(json_line({"datasets": found, "averages": averages}))
    elif as_csv:
        print(writers.csv_text(printable_record(writers.result_rows(found, averages))), end="")
    elif as_latex or as_markdown:
        print("\n\n".join(map(writers.latex if as_latex else writers.markdown, sections)))
    else:
        show_sections(sections)


def report(
    runs: RunsArgument,
    file: OutOption,
    base: str | None = None,
    all_pairs: AllPairsFlag = False,
    metric: list[str] | None = None,
    common: CommonFlag = False,
    price: list[str] | None = None,
    questions: QuestionsOption = 5,
) -> None:
    """Write an HTML report about runs: tables, charts, and published results on the same datasets.

    Args:
        file: The HTML file to write.
        runs: Run folders written by `askance eval`.
        base: The run that the others are compared with, by folder or name; by default the first.
        all_pairs: Compare every two runs with each other.
        metric: A metric to compare by; the option may be repeated. By default, the main metrics are used.
        common: Compare only the questions that all runs have finished.
        price: A price as NAME=PRICE; repeat the option for prompt and generated (per million tokens), search,
            and currency.
        questions: Show the N questions that differ most, for each comparison.

    Examples:
        askance report runs/single runs/dragin --out report.html
        askance report runs/single runs/dragin --price prompt=0.15 --out report.html
    """
    check_writable(file)
    how: dict[str, Any] = {"metrics": metric or (), "all_pairs": all_pairs, "num_questions": questions}
    compared, averages = _reported(runs, base, common, price, **how)
    reported = [dataclasses.replace(each, outcomes=[outcome_table(each.group)]) for each in compared]
    write_out(file, report_page(reported, f"{datetime.now(UTC):%Y-%m-%d}", averages), f"report: {file}")


def _reported(
    folders: list[Path], base: str | None, common: bool, price: list[str] | None, **how: Any
) -> tuple[list[Reported], Averages]:
    """Group runs by dataset, and compare those of each group. `how` are options of `compare_group`.

    The result includes the averages over the groups.
    """
    prices = read_prices(price) if price else None
    groups = group_runs([read_run(folder) for folder in folders], common=common)
    bases = base_indices(base, groups)
    pairs = zip(groups, bases, strict=True)
    reported = [Reported(group, compare_group(group, base=at, prices=prices, **how)) for group, at in pairs]
    metrics = [each.found.metrics for each in reported]
    return reported, average_groups(groups, metrics, groups[0].names[bases[0]])


def show_sections(sections: Sequence[Section]) -> None:
    """Print sections one below the other."""
    for number, each in enumerate(sections):
        title = Text(each.title, style="bold underline")
        out.print(title if not number else Text("\n\n").append(title))
        for line in each.settings:
            out.print(Text(line))
        for remark in each.remarks:
            out.print(Text(remark, style="yellow"))
        print_tables(out, each.tables)


def merge(folder: Annotated[Path, typer.Argument(metavar="OUT")], runs: RunsArgument) -> None:
    """Merge shards, which are runs with the same settings over different questions, into a new run.

    Args:
        folder: The folder of the new run.
        runs: The run folders of the shards. They are not changed.

    Examples:
        askance merge runs/whole runs/part-1 runs/part-2
        askance merge runs/whole runs/*-of-8
    """
    run = merge_runs(folder, runs)
    print_plain(out, f"{len(run.records):,} of {run.settings.num_questions:,} questions: {folder}")


export = typer.Typer(no_args_is_help=True, add_completion=False)
RunArgument = Annotated[Path, typer.Argument(metavar="RUN")]


@export.callback()
def _export() -> None:
    """Export a run in the format of another evaluation tool, or as training data.

    Examples:
        askance export alce runs/asqa --out alce.json
        askance export alce --help
    """


@export.command()
def alce(run: RunArgument, file: OutOption, dataset: str | None = None) -> None:
    """Export a run over ASQA to the JSON format that ALCE's eval.py reads.

    Args:
        run: A run folder written by `askance eval`.
        file: The file to write; it must not exist yet.
        dataset: The dataset, as asqa:FILE; by default the file that the run used.

    Examples:
        askance export alce runs/asqa --out alce.json
        askance export alce runs/asqa --dataset asqa:asqa.json --out alce.json
    """
    _write(file, run, lambda found: formats.alce(found, find_dataset(dataset or found.settings.dataset)))


@export.command()
def factscore(run: RunArgument, file: OutOption) -> None:
    """Export a run over biographies to the JSON Lines format that FActScore reads.

    Args:
        run: A run folder written by `askance eval`.
        file: The file to write; it must not exist yet.

    Examples:
        askance export factscore runs/biographies --out factscore.jsonl
        askance export factscore runs/other --out other.jsonl
    """
    _write(file, run, formats.factscore)


@export.command()
def sheet(run: RunArgument, file: OutOption) -> None:
    """Export a run as a sheet on which people judge its answers (CSV); `askance judge --sheet` reads it.

    Args:
        run: A run folder written by `askance eval`.
        file: The file to write; it must not exist yet.

    Examples:
        askance export sheet runs/selfrag --out sheet.csv
        askance export sheet runs/single --out ann.csv
    """
    _write(file, run, sheets.sheet)


@export.command()
def trec(run: RunArgument, file: OutOption, qrels: bool = False) -> None:
    """Export the documents that the searches of a run found in the format of TREC, for retrieval measures.

    Args:
        run: A run folder written by `askance eval`.
        file: The file to write; it must not exist yet.
        qrels: Export the supporting documents as relevance judgements (qrels) instead.

    Examples:
        askance export trec runs/dragin --out dragin.run
        askance export trec runs/dragin --qrels --out hotpotqa.qrels
    """
    _write(file, run, lambda found: formats.trec(found, qrels))


@export.command()
def trees(run: RunArgument, file: OutOption, format: TreeFormatOption = TreeFormat.PROCESS) -> None:
    """Export the search trees of an AirRAG run as training data, in formats that TRL reads (JSON Lines).

    Args:
        run: A run folder written by `askance eval`.
        file: The file to write; it must not exist yet.
        format: Right paths (sft), better and worse steps (preference), or paths with a label for each step
            (process).

    Examples:
        askance export trees runs/airrag --out steps.jsonl
        askance export trees runs/airrag --format preference --out pairs.jsonl
    """
    _write(file, run, lambda found: "".join(f"{json_line(row)}\n" for row in tree_rows(found, format)))


def _write(file: Path, folder: Path, text_of: Callable[[RecordedRun], str]) -> None:
    """Export a run to a new file."""
    check_writable(file)
    if file.exists():
        raise InputError(f"won't write {file}: it exists already. Name another --out, or move it away.")
    run = read_run(folder)
    of = "" if run.is_complete else f" of {run.settings.num_questions:,}"
    write_out(file, text_of(run), f"{len(run.records):,}{of} questions: {file}")
