"""Make the runs of a recipe's grid, and return them by name."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from askance.configuration.build import load_models
from askance.configuration.grid import Grid, prepare_experiments
from askance.core.errors import AskanceError
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import LoadModels, Progress, RunOptions, run_grid
from askance.terminal.console import err
from askance.terminal.progress import EvaluationProgress


def make_runs(grid: Grid, folder: Path, *, is_shown: bool = True) -> dict[str, RecordedRun]:
    """Make the runs of a grid, or complete them, and return them by "dataset/method".

    Args:
        is_shown: Whether the progress is shown on the terminal.

    Raises:
        AskanceError: A run failed.
    """
    ready = prepare_experiments(grid.experiments(), place_of=grid.place_of)
    runs = {}
    for name, result in try_runs(ready, folder, is_shown=is_shown).items():
        if isinstance(result, AskanceError):
            raise result
        dataset, _, method = name.split("/")
        runs[f"{dataset}/{method}"] = result
    return runs


def try_runs(
    ready: Mapping[str, ReadyExperiment],
    folder: Path,
    load: LoadModels | None = None,
    *,
    options: RunOptions = RunOptions(),
    is_shown: bool = True,
) -> dict[str, RecordedRun | AskanceError]:
    """Make the runs of experiments, or complete them, and return each run or the error that ended it.

    Args:
        ready: The experiments by DATASET/MODEL/METHOD, which are also the keys of the result.
        load: A function that loads models, if not every call is to load them again (see `loading_once`).
        options: The options of the runs that do not change their answers.
        is_shown: Whether the progress is shown on the terminal.
    """

    def progress(name: str) -> AbstractContextManager[Progress]:
        return EvaluationProgress(err, name) if is_shown else nullcontext(lambda status: None)

    return asyncio.run(run_grid(ready, folder, load or load_models, options, progress))


def folder_name(text: str) -> str:
    """Return `text` with "-" in place of characters that a folder's name can't have."""
    return re.sub(r"[^A-Za-z0-9_.,+=-]+", "-", text)
