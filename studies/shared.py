"""Functions that studies and recipes share: options, tables, gates, runs of a grid, and files of rows."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from askance.configuration.build import load_models
from askance.configuration.evaluation import read_dataset
from askance.configuration.grid import Grid
from askance.core.errors import AskanceError
from askance.core.parameters import parse_parameters
from askance.evaluation.datasets import Example
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import LoadModels, Progress, RunOptions, run_grid
from askance.evaluation.statistics.compare import MeanInterval
from askance.storage.durable_files import write_atomically

if TYPE_CHECKING:
    from askance_lab.training.loop.trainer import TrainingStatus

T = TypeVar("T")
_STEPS_SHOWN = 20


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help begins with the docstring of a module, with its line breaks."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def settings_of(kind: type[T], given: Iterable[str]) -> T:
    """Return the settings of a training run with values such as "epochs=2"."""
    return kind(**parse_parameters(kind, dict(each.split("=", 1) for each in given)))


def read_datasets(specs: Iterable[str]) -> dict[str, Sequence[Example]]:
    """Read datasets that are given as NAME:FILE, and return their questions by name."""
    return {spec.partition(":")[0]: read_dataset(spec) for spec in specs}


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with a heading for each column and with the given rows of strings."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (titles, ["---"] * len(titles), *rows))


def with_interval(mean: MeanInterval, digits: int = 3) -> str:
    """Return a mean with its interval."""
    return f"{mean.mean:.{digits}f} ({mean.low:.{digits}f} to {mean.high:.{digits}f})"


def in_points(difference: MeanInterval, unit: str = " points", name: str = "") -> str:
    """Return a difference in points with its interval, which may be preceded by its name."""
    mean, low, high = (100 * each for each in (difference.mean, difference.low, difference.high))
    return f"{mean:+.1f}{unit} ({name}{low:+.1f} to {high:+.1f})"


@dataclass(frozen=True, slots=True)
class GateRow:
    """A condition of a gate, what was measured, and whether it is met."""

    condition: str
    measured: str
    is_met: bool


def check_gate(rows: Iterable[GateRow], *, exits: bool = True) -> None:
    """Print each condition of a gate, and whether it is met.

    Args:
        exits: Whether to exit with 1 if a condition is missed.
    """
    missed = False
    for row in rows:
        print(f"{'met' if row.is_met else 'missed'}: {row.condition}: {row.measured}")
        missed |= not row.is_met
    if exits and missed:
        raise SystemExit(1)


def show_step(status: "TrainingStatus") -> None:
    """Print some of the steps of a training run."""
    if status.step % _STEPS_SHOWN == 0:
        print(f"step {status.step:,}/{status.num_steps:,}, loss {status.loss:.3f}", file=sys.stderr)


def make_runs(grid: Grid, folder: Path) -> dict[str, RecordedRun]:
    """Make the runs of a grid, or complete them, and return them by "dataset/method".

    Raises:
        AskanceError: A run failed.
    """
    ready = grid.prepare()
    runs = {}
    for name, result in try_runs(ready, folder).items():
        if isinstance(result, AskanceError):
            raise result
        dataset, _, method = name.split("/")
        runs[f"{dataset}/{method}"] = result
    return runs


def try_runs(
    ready: Mapping[str, ReadyExperiment],
    folder: Path,
    load: LoadModels | None = None,
) -> dict[str, RecordedRun | AskanceError]:
    """Make the runs of experiments, or complete them, and return each run or the error that ended it.

    Args:
        ready: The experiments by DATASET/MODEL/METHOD, which are also the keys of the result.
        load: A function that loads models, if not every call is to load them again (see `loading_once`).
    """

    def progress(name: str) -> AbstractContextManager[Progress]:
        print(name, file=sys.stderr)
        return nullcontext(lambda status: None)

    return asyncio.run(run_grid(ready, folder, load or load_models, RunOptions(), progress))


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as a file of JSON Lines, in one step."""
    write_atomically(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
