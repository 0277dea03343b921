"""The commands that ask methods the questions of datasets, and keep what comes of it."""

import asyncio
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from askance.ask import models_told
from askance.cli_options import CacheOption, ConfigOption, InFlightOption, JsonFlag
from askance.cli_settings import flags_given, with_settings
from askance.config_sources import OPTION, Sourced, given_as, sources
from askance.core.strict_json import json_line
from askance.eval.readings import DEFAULT_READING
from askance.loading import load_models
from askance.serve.console import err, out
from askance.text.printable import printable, printable_record

if TYPE_CHECKING:
    from askance.eval.recorded_run import RecordedRun
    from askance.eval.summaries import Costs


MAX_FAILURES = 20
MaxFailuresOption = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="Stop, with exit code 1, once more than N questions of a run have failed."
    ),
]
ReadingOption = Annotated[
    str,
    typer.Option(
        help="How short answers are read before they are scored: own, or authors, as the DRAGIN authors read "
        "those of 2wikimultihopqa, hotpotqa, iirc and strategyqa. A run that is there is read anew.",
    ),
]
RetryFlag = Annotated[
    bool, typer.Option("--retry-failures", help="Ask the questions again that failed before.")
]


@with_settings()
def evaluate(
    dataset: Annotated[str, typer.Option(help="NAME:FILE, see `askance datasets`.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder of the run; a stopped run goes on.")],
    sourced: Sourced,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Ask the first N questions.")] = None,
    sample: Annotated[
        int | None, typer.Option(metavar="N", help="Ask N questions, each kind with its share.")
    ] = None,
    ids: Annotated[
        Path | None, typer.Option(help="Ask the questions whose ids are the lines of this file.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric, in place of the usual ones; may be given again.")
    ] = None,
    reading: ReadingOption = DEFAULT_READING,
    max_failures: MaxFailuresOption = MAX_FAILURES,
    retry_failures: RetryFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Ask a method the questions of a dataset, and say what its answers are worth and cost.

    Each finished question is on the disk before the next is counted: the same command goes on after a kill.
    """
    from askance.eval.cell import Cell, look_up
    from askance.eval.harness import Terms
    from askance.eval.harness import evaluate as run_cell
    from askance.eval.metrics import DEFAULT_METRICS
    from askance.serve.progress import EvaluationProgress

    cell = Cell(
        **sourced.for_method().settings,
        dataset=dataset,
        limit=limit,
        sample=sample,
        ids=ids,
        metrics=tuple(metric or DEFAULT_METRICS),
        reading=reading,
    )
    ready = look_up(cell)
    with EvaluationProgress(err) as progress:
        terms = Terms(max_failures, retry_failures)
        run = asyncio.run(run_cell(ready, folder, load_models, terms, progress))
    _show_as_json(run) if as_json else _show(run)
    if _has_failed(run):
        raise typer.Exit(1)


def grid(
    file: Annotated[Path, typer.Argument(help="TOML: methods, datasets and models; see docs/runs.md.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder of the runs: OUT/DATASET/MODEL/METHOD.")],
    cache: CacheOption = None,
    in_flight: InFlightOption = None,
    config: ConfigOption = None,
    max_failures: MaxFailuresOption = MAX_FAILURES,
    retry_failures: RetryFlag = False,
) -> None:
    """Evaluate methods × datasets × models: all that is not done yet."""
    from askance.core.errors import AskanceError
    from askance.eval.grid import look_up_all, read_grid, run_grid
    from askance.eval.harness import Terms
    from askance.serve.progress import EvaluationProgress

    flags = flags_given({"cache": cache, "in_flight": in_flight})
    cells = look_up_all(read_grid(file).cells(sources(config), given_as(flags, OPTION)))
    terms = Terms(max_failures, retry_failures)
    work = run_grid(cells, folder, load_models, terms, lambda name: EvaluationProgress(err, name))
    found = asyncio.run(work)
    runs = {name: run for name, run in found.items() if not isinstance(run, AskanceError)}
    stopped = {name: error for name, error in found.items() if isinstance(error, AskanceError)}
    if runs:
        out.print(_grid_table(runs))
    for name, error in stopped.items():
        err.print(printable(f"stopped: {name}: {error}"), style="red", markup=False, soft_wrap=True)
    codes = [error.exit_code for error in stopped.values()] + [1 for run in runs.values() if _has_failed(run)]
    if codes:
        raise typer.Exit(max(codes))


def _has_failed(run: "RecordedRun") -> bool:
    """Whether no question of a run was answered."""
    return bool(run.records) and all(record.is_failure for record in run.records)


def _grid_table(runs: "dict[str, RecordedRun]") -> Table:
    """A line a run: its main metric, and what a question cost."""
    from askance.eval.summaries import summarise

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", no_wrap=True)
    table.add_column("method")
    for heading in ("asked", "worth (95 %)", "searches", "tokens", "s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, run in runs.items():
        summary = printable_record(summarise(run))
        worth = summary.metrics.get(summary.main_metric)
        told = "–" if worth is None else f"{worth.mean:.3f} ({worth.low:.3f}–{worth.high:.3f})"
        failed = f"{summary.failures:,} failed, " if summary.failures else ""
        table.add_row(
            name, summary.method, f"{failed}{summary.num_finished:,}",
            f"{summary.main_metric} {told}".strip(),
            f"{summary.costs.searches:.2f}", summary.costs.computed_text,
            f"{summary.costs.median_seconds:.1f}",
        )  # fmt: skip
    return table


def _show_as_json(run: "RecordedRun") -> None:
    from askance.eval.summaries import summarise

    failures = {record.id: record.error for record in run.records if record.is_failure}
    print(json_line({**dataclasses.asdict(summarise(run)), "failed": failures}))


def _show(run: "RecordedRun") -> None:
    from askance.eval.summaries import reading_told, summarise
    from askance.serve.tables import interval_table

    for record in run.records:
        if record.is_failure:
            told = printable(f"failed: {record.id}: {record.error}")
            err.print(told, style="yellow", markup=False, soft_wrap=True)
    summary = printable_record(summarise(run))
    asked = f"{summary.num_finished:,} questions of {run.settings.dataset_name}"
    models = printable(models_told(run.settings.models, run.settings.precisions))
    told = f"  {models}, {asked}{reading_told(summary.reading)}"
    head = Text(summary.title, style="bold").append(told, style="not bold dim")
    out.print(head, soft_wrap=True)
    out.print(interval_table(summary.metrics))
    out.print(_cost_line(summary.costs), soft_wrap=True)
    if summary.failures:
        told = f"{summary.failures} of {asked} failed, and count as answered wrongly"
        out.print(told, style="yellow", markup=False, soft_wrap=True)
    out.print(printable(f"run: {run.folder}"), style="dim", markup=False, soft_wrap=True)


def _cost_line(costs: "Costs") -> str:
    return (
        f"a question: {costs.searches:.2f} searches · {costs.computed_text} tokens computed "
        f"({costs.tokens_generated:,.0f} generated, {costs.tokens_reused:,.0f} more reused) · "
        f"{costs.median_seconds:.2f} s (median; 95 % within {costs.p95_seconds:.2f} s)"
    )
