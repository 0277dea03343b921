"""Make the runs of a recipe's grid, and return them by name."""

import asyncio
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from askance.core.errors import AskanceError
from askance.evaluation.run.grid import Grid, prepare_experiments, run_grid
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import Progress, RunOptions
from askance.registry import load_models
from askance.terminal.console import err
from askance.terminal.progress import EvaluationProgress


def make_runs(grid: Grid, folder: Path, *, is_shown: bool = True) -> dict[str, RecordedRun]:
    """Make the runs of a grid, or complete them, and return them by "dataset/method".

    Args:
        folder: The folder of the runs.
        is_shown: Whether the progress is shown on the terminal.

    Raises:
        AskanceError: A run failed.
    """
    experiments = prepare_experiments(grid.experiments(), place_of=grid.place_of)

    def progress(name: str) -> AbstractContextManager[Progress]:
        return EvaluationProgress(err, name) if is_shown else nullcontext(lambda status: None)

    work = run_grid(experiments, folder, load_models, RunOptions(), progress)
    runs = {}
    for name, result in asyncio.run(work).items():
        if isinstance(result, AskanceError):
            raise result
        dataset, _, method = name.split("/")
        runs[f"{dataset}/{method}"] = result
    return runs
