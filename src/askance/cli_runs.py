"""The commands that read runs of the evaluation: compared, reported on a page, in the formats of others."""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from askance.cli_options import JsonFlag, write_out
from askance.core.errors import InputError
from askance.core.strict_json import json_line
from askance.runtime.trace_file import check_writable
from askance.serve.console import out
from askance.text.printable import printable_record

if TYPE_CHECKING:
    from askance.eval.paired_runs import Comparisons
    from askance.eval.recorded_run import RecordedRun
    from askance.eval.report.page import Reported


RunsArgument = Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders written by `askance eval`.")]
BaseOption = Annotated[
    str | None, typer.Option(help="The run to compare with, by folder or name; otherwise the first.")
]
AllPairsFlag = Annotated[bool, typer.Option("--all-pairs", help="Compare every two runs.")]
MetricOption = Annotated[
    list[str] | None, typer.Option(help="To compare by; may be given again. Otherwise the main ones.")
]
CommonFlag = Annotated[
    bool,
    typer.Option("--common", help="Compare the questions that all runs have finished; leave out others."),
]
PriceOption = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=PRICE, once each: prompt, generated, reused (a million tokens), search, currency."
    ),
]
QuestionsOption = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Of each comparison, show the N questions that differ most."),
]


def compare(
    runs: RunsArgument,
    base: BaseOption = None,
    all_pairs: AllPairsFlag = False,
    metric: MetricOption = None,
    common: CommonFlag = False,
    price: PriceOption = None,
    questions: QuestionsOption = 0,
    as_json: JsonFlag = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """Compare runs over the same questions, with intervals and p-values.

    Examples:
        askance compare runs/single runs/dragin
        askance compare runs/single runs/dragin --questions 5 --markdown
    """
    if as_json and as_markdown:
        raise InputError("--json and --markdown exclude each other: give one of them.")
    reported = _reported(runs, base, all_pairs, metric, common, price, questions)
    found = [each.found for each in reported]
    if as_json:
        print(json_line({"datasets": [dataclasses.asdict(each) for each in found]}))
    elif as_markdown:
        print("\n\n".join(map(_markdown, printable_record(found))))
    else:
        _show(printable_record(found))


def report(
    runs: RunsArgument,
    file: Annotated[Path, typer.Option("--out", help="Write the page to this file (HTML).")],
    base: BaseOption = None,
    all_pairs: AllPairsFlag = False,
    metric: MetricOption = None,
    common: CommonFlag = False,
    price: PriceOption = None,
    questions: QuestionsOption = 5,
) -> None:
    """Write one page about runs: tables, charts, and what papers print for the same datasets.

    Examples:
        askance report runs/single runs/dragin --out report.html
        askance report runs/single runs/dragin --price prompt=0.15 --out report.html
    """
    from askance.eval.report.page import report_page

    check_writable(file)
    reported = _reported(runs, base, all_pairs, metric, common, price, questions)
    write_out(file, report_page(reported, f"{datetime.now(UTC):%Y-%m-%d}"), f"report: {file}")


def _reported(
    folders: Sequence[Path],
    base: str | None,
    all_pairs: bool,
    metrics: Sequence[str] | None,
    common: bool,
    prices: Sequence[str] | None,
    num_questions: int,
) -> "list[Reported]":
    from askance.eval.metrics.prices import read_prices
    from askance.eval.paired_runs import compare_group
    from askance.eval.recorded_run import read_run
    from askance.eval.report.page import Reported
    from askance.eval.run_groups import group_runs, places_of

    read = read_prices(prices) if prices else None
    groups = group_runs([read_run(folder) for folder in folders], common=common)
    bases = [0] * len(groups) if base is None else places_of(base, groups)
    return [
        Reported(
            group,
            compare_group(
                group,
                metrics=metrics or (),
                base=place,
                all_pairs=all_pairs,
                num_questions=num_questions,
                prices=read,
            ),
        )
        for group, place in zip(groups, bases, strict=True)
    ]


def _show(found: "Sequence[Comparisons]") -> None:
    from askance.eval.tables import counted, remarks_of, setting_lines, tables_of
    from askance.serve.tables import print_tables

    for number, each in enumerate(found):
        title = Text(f"{each.dataset}, {counted(each.num_questions)}", style="bold underline")
        out.print(title if not number else Text("\n\n").append(title))
        for line in setting_lines(each):
            out.print(Text(line))
        for remark in remarks_of(each):
            out.print(Text(remark, style="yellow"))
        print_tables(out, tables_of(each))


def _markdown(found: "Comparisons") -> str:
    from askance.eval.tables import counted, markdown, remarks_of, setting_lines, tables_of

    told = [*setting_lines(found), *remarks_of(found)]
    head = f"## {found.dataset}, {counted(found.num_questions)}"
    return "\n\n".join([head, *told, *map(markdown, tables_of(found))])


export = typer.Typer(no_args_is_help=True, add_completion=False)
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A folder written by `askance eval`.")]
OutOption = Annotated[Path, typer.Option("--out", help="The file to write; there must be none yet.")]


@export.callback()
def _export() -> None:
    """Write a run in the format of another evaluation.

    Examples:
        askance export alce runs/asqa --out alce.json
        askance export alce --help
    """


@export.command()
def alce(
    run: RunArgument,
    file: OutOption,
    dataset: Annotated[
        str | None, typer.Option(help="asqa:FILE; otherwise the file that the run was asked from.")
    ] = None,
) -> None:
    """Write a run over ASQA as ALCE's eval.py reads it (JSON).

    Examples:
        askance export alce runs/asqa --out alce.json
        askance export alce runs/asqa --dataset asqa:asqa.json --out alce.json
    """
    from askance.eval.export import alce as exported

    found = _run_for(file, run)
    _write(file, exported(found, dataset or found.settings.dataset), found)


@export.command()
def factscore(run: RunArgument, file: OutOption) -> None:
    """Write a run over biographies as FActScore reads it (JSON Lines).

    Examples:
        askance export factscore runs/biographies --out factscore.jsonl
        askance export factscore runs/other --out other.jsonl
    """
    from askance.eval.export import factscore as exported

    found = _run_for(file, run)
    _write(file, exported(found), found)


def _run_for(file: Path, run: Path) -> "RecordedRun":
    """The run that is to be written to a file, which is not there yet."""
    from askance.eval.recorded_run import read_run

    check_writable(file)
    if file.exists():
        raise InputError(f"won't write {file}: it is there already. Name another --out, or move it away.")
    return read_run(run)


def _write(file: Path, text: str, run: "RecordedRun") -> None:
    of = "" if run.is_complete else f" of {run.settings.num_questions:,}"
    write_out(file, text, f"{len(run.records):,}{of} questions: {file}")
