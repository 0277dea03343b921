"""The commands that read runs of the evaluation: comparing them, and reporting them on a page."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from askance.cli_options import JsonFlag
from askance.core.errors import InputError
from askance.core.strict_json import json_line
from askance.runtime.durable import write_atomically
from askance.runtime.trace_file import check_writable
from askance.serve.console import out
from askance.text.printable import printable, printable_record

if TYPE_CHECKING:
    from askance.eval.paired_runs import Comparisons
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
QUESTIONS = "Of each comparison, show the N questions that differ most."


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What both commands take, as it was typed."""

    folders: Sequence[Path]
    base: str | None
    all_pairs: bool
    metrics: Sequence[str]
    common: bool
    prices: Sequence[str]
    num_questions: int


def compare(
    runs: RunsArgument,
    base: BaseOption = None,
    all_pairs: AllPairsFlag = False,
    metric: MetricOption = None,
    common: CommonFlag = False,
    price: PriceOption = None,
    questions: Annotated[int, typer.Option(min=0, metavar="N", help=QUESTIONS)] = 0,
    as_json: JsonFlag = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """Compare runs over the same questions, with intervals and p-values."""
    if as_json and as_markdown:
        raise InputError("--json and --markdown exclude each other: give one of them.")
    wanted = _Wanted(runs, base, all_pairs, metric or (), common, price or (), questions)
    found = [each.found for each in _reported(wanted)]
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
    questions: Annotated[int, typer.Option(min=0, metavar="N", help=QUESTIONS)] = 5,
) -> None:
    """Write one page about runs: tables, charts, and what papers print for the same datasets."""
    from askance.eval.report.page import report_page

    check_writable(file)
    wanted = _Wanted(runs, base, all_pairs, metric or (), common, price or (), questions)
    page = report_page(_reported(wanted), f"{datetime.now(UTC):%Y-%m-%d}")
    try:
        write_atomically(file, page)
    except OSError as error:
        raise InputError(f"can't write {file}: {error.strerror}. Name another file.") from error
    out.print(printable(f"report: {file}"), markup=False, soft_wrap=True)


def _reported(wanted: _Wanted) -> "list[Reported]":
    from askance.eval.metrics.prices import read_prices
    from askance.eval.paired_runs import compare_group
    from askance.eval.recorded_run import read_run
    from askance.eval.report.page import Reported
    from askance.eval.run_groups import group_runs, places_of

    prices = read_prices(wanted.prices) if wanted.prices else None
    groups = group_runs([read_run(folder) for folder in wanted.folders], common=wanted.common)
    bases = places_of(wanted.base, groups)
    found = (
        compare_group(
            group,
            metrics=wanted.metrics,
            base=base,
            all_pairs=wanted.all_pairs,
            num_questions=wanted.num_questions,
            prices=prices,
        )
        for group, base in zip(groups, bases, strict=True)
    )
    return [Reported(group, each) for group, each in zip(groups, found, strict=True)]


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
