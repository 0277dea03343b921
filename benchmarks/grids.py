"""Functions that make, run and show a grid, shared by the scripts that compare methods."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from recipes.command_line import parser_of
from recipes.grids import folder_name, try_runs

from askance.cli.evaluate import MAX_FAILURES
from askance.cli.runs import compare, report
from askance.configuration.build import load_models
from askance.configuration.catalogue import DEFAULT_MODEL
from askance.configuration.experiment import PROMPTS_OF_DATASET, Experiment
from askance.configuration.grid import Grid, Table, prepare_experiments
from askance.core.errors import AskanceError, InputError
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import RunOptions
from askance.terminal.console import err, print_plain

Setting = str | int | float | bool
"""The type of a parameter's value."""


def grid_options(about: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every script that runs a grid."""
    parser = parser_of(about)
    parser.add_argument("--index", type=Path, help="folder made by `askance index`")
    parser.add_argument("--sample", type=int, default=10, help="questions a dataset, of all kinds (10)")
    parser.add_argument("--out", type=Path, required=True, help="folder of results; a stopped run continues")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument(
        "--prompts",
        default=PROMPTS_OF_DATASET,
        help="dataset: the packaged set of its name; own; or another set or file",
    )
    return parser


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add the option --cache, with which runs share the results of model calls and searches.

    The recorded seconds then cover only the work that was not in the cache.
    """
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="FILE",
        help="keeps what model and index give, for when they are asked the same again",
    )


def make_grid(options: argparse.Namespace, datasets: Sequence[str], methods: Mapping[str, Table]) -> Grid:
    """Return the grid that the options of `grid_options` describe.

    Raises:
        InputError: A dataset is named twice.
    """
    names = [spec.partition(":")[0] for spec in datasets]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"dataset {twice!r} is named twice: give each its own --out, runs are kept by name.")
    index = {} if options.index is None else {"index": str(options.index)}
    return Grid(
        common={**index, "prompts": options.prompts, "sample": options.sample},
        datasets={name: {"questions": spec} for name, spec in zip(names, datasets, strict=True)},
        models={folder_name(options.model): {"answer": options.model}},
        methods=methods,
    )


def run_and_show(grid: Grid, out: Path, base: str = "") -> None:
    """Run the unfinished questions of OUT/runs, print tables of all experiments, and write OUT/report.html.

    Args:
        base: The method that all others are compared with. If the grid lacks it, the first method is used.

    Raises:
        SystemExit: An experiment failed, so no table shows it. The exit code is 1.
    """
    found, stopped = run_experiments(grid.experiments(), out)
    _show(found, grid.datasets, out, base)
    if stopped:
        raise SystemExit(1)


def run_experiments(
    experiments: Mapping[str, Experiment], out: Path, cache: Path | None = None
) -> tuple[dict[str, RecordedRun], tuple[str, ...]]:
    """Run the unfinished questions of OUT/runs, and return the runs by name, DATASET/MODEL/METHOD.

    The errors of failed experiments are printed on standard error. The names of these experiments are the
    second result.
    """
    ready = prepare_experiments(
        {name: replace(experiment, cache=cache) for name, experiment in experiments.items()}
    )
    terms = RunOptions(max_failures=MAX_FAILURES)
    found, stopped = dict[str, RecordedRun](), list[str]()
    for name, run in try_runs(ready, out / "runs", load_models, options=terms).items():
        if isinstance(run, AskanceError):
            print_plain(err, f"stopped: {name}: {run}", "red")
            stopped.append(name)
        else:
            found[name] = run
    return found, tuple(stopped)


def _show(names: Iterable[str], datasets: Iterable[str], out: Path, base: str) -> None:
    base_first = sorted(names, key=lambda name: not name.endswith(f"/{base}"))
    shown = []
    for dataset in datasets:
        folders = [out / "runs" / name for name in base_first if name.startswith(f"{dataset}/")]
        if folders:
            compare(folders, as_markdown=True)
            print()
        shown += folders
    if shown:
        report(shown, out / "report.html")
