"""The command that lists the kinds of models, and tries one."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from askance.cli_options import JsonFlag
from askance.core.extensions import packages_of_plugins
from askance.core.strict_json import json_line
from askance.models.checking import Finding, Report, check
from askance.models.kinds import MODEL_KINDS
from askance.serve.console import out
from askance.text.printable import printable


def models(
    spec: Annotated[
        str | None,
        typer.Option("--check", metavar="SPEC", help="Try everything that this model might be able to do."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the kinds of models and whether they can be used here, or try one model.

    A model is right, and the exit code 0, when all that it declares works.
    """
    if spec is None:
        _list(as_json)
        return
    report = asyncio.run(check(spec))
    if as_json:
        print(json_line({**asdict(report), "is_right": report.is_right}))
    else:
        _show(report)
    if not report.is_right:
        raise typer.Exit(1)


def _list(as_json: bool) -> None:
    if as_json:
        rows = [
            {"spec": kind.spec, "what": kind.what, "missing": kind.missing, "install": kind.install()}
            for kind in MODEL_KINDS.values()
        ]
        rows += [
            {"spec": name, "what": what, "missing": [], "install": ""}
            for name, what in packages_of_plugins("models", MODEL_KINDS).items()
        ]
        print(json_line({"models": rows}))
        return
    table = Table("spec", "what it is", "here", box=None, pad_edge=False, header_style="bold")
    for kind in MODEL_KINDS.values():
        table.add_row(*map(Text, (kind.spec, kind.what, "not installed" if kind.missing else "ready")))
    for name, what in packages_of_plugins("models", MODEL_KINDS).items():
        table.add_row(*map(Text, map(printable, (name, what, "installed"))))
    out.print(table)
    for name, kind in MODEL_KINDS.items():
        if kind.missing:
            out.print(Text(f"{name} needs: {kind.install()}"), soft_wrap=True)


def _show(report: Report) -> None:
    title = printable(f"{report.model}, window of {report.context_tokens:,} tokens")
    out.print(Text(title, style="bold"), soft_wrap=True)
    table = Table("what", "declared", "works", "", box=None, pad_edge=False, header_style="dim")
    for finding in report.findings:
        declared = {True: "yes", False: "no", None: "always"}[finding.is_declared]
        works = {True: "yes", False: "no", None: "not tried"}[finding.works]
        style = "red" if finding.is_declared and not finding.works else ""
        cells = (finding.ability, declared, works, printable(_note(finding)))
        table.add_row(*(Text(cell, style=style) for cell in cells))
    out.print(table)
    verdict = "all that is declared works" if report.is_right else "not all that is declared works"
    out.print(Text(verdict, style="green" if report.is_right else "red"))


def _note(finding: Finding) -> str:
    if finding.works and finding.declare:
        return f"declare it: ?{finding.declare}"
    return finding.why
