"""The command that lists the datasets, and shows what is in a file of one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from askance.core.extensions import packages_of_plugins
from askance.serve.console import out
from askance.text.printable import printable, printable_record

if TYPE_CHECKING:
    from askance.eval.datasets import Dataset, Example


def datasets(
    spec: Annotated[
        str | None, typer.Argument(metavar="NAME:FILE", help="A file to read, and to say what is in it.")
    ] = None,
) -> None:
    """List the datasets that can be read, or show what is in a file of one."""
    from askance.eval.datasets import DATASETS, read_dataset

    if spec is None:
        out.print(_listing(DATASETS.values()))
    else:
        _show(spec, printable_record(read_dataset(spec)))


def _listing(known: "Iterable[Dataset]") -> Table:
    table = Table(
        "dataset", "questions; kinds of file; licence; source", box=None, pad_edge=False, header_style="bold"
    )
    for dataset in known:
        spec, bracket, options = dataset.spec.partition("[")
        facts = [" or ".join(dataset.layouts), dataset.licence]
        cell = Text(dataset.what).append("\n" + "; ".join(filter(None, facts)), style="dim")
        if dataset.source:
            cell.append(f"\n{dataset.source}", style="dim")
        table.add_row(Text(f"{spec}\n  {bracket}{options}" if options else spec), cell)
    for name, package in packages_of_plugins("datasets", [dataset.name for dataset in known]).items():
        table.add_row(Text(printable(name)), Text(printable(package)))
    return table


def _show(spec: str, examples: "Sequence[Example]") -> None:
    supported = sum(bool(example.supporting_titles) for example in examples)
    grounded = sum(bool(example.grounds.supporting or example.grounds.facts) for example in examples)
    told = (
        f"{printable(spec)}: {len(examples):,} questions, {supported:,} with supporting titles, "
        f"{grounded:,} with supporting texts or facts"
    )
    out.print(told, markup=False, soft_wrap=True)
    out.print(_counts("kind", [example.kind or "(none)" for example in examples]))
    out.print(_counts("hops", [str(example.hops or "(not known)") for example in examples]))
    out.print("first", style="bold")
    out.print(_first(examples[0]))


def _counts(heading: str, values: "Sequence[str]") -> Table:
    table = Table(heading, box=None, pad_edge=False, header_style="bold")
    table.add_column("questions", justify="right")
    for value, number in sorted(Counter(values).items()):
        table.add_row(Text(value), f"{number:,}")
    return table


def _first(example: "Example") -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    question = example.question
    rows = {
        "id": question.id,
        "question": question.text,
        "task": question.task,
        "options": " | ".join(question.options),
        "golds": " | ".join(example.golds),
        "supporting": " | ".join(example.supporting_titles),
    }
    for name, value in rows.items():
        if value:
            table.add_row(name, Text(value))
    return table
