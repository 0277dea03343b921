"""Runs of many experiments, each of which has a run folder."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from askance.core.errors import AskanceError, MissingAbility, RunFolderError
from askance.core.ports import Model
from askance.core.types import Role
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import LoadModels, Progress, RunOptions, evaluate, start_run

GridListener = Callable[[str], AbstractContextManager[Progress]]
"""A function from the name of an experiment to a context manager that yields the progress listener."""


async def run_grid(
    experiments: Mapping[str, ReadyExperiment],
    folder: Path,
    load_models: LoadModels,
    options: RunOptions,
    listener: GridListener,
) -> dict[str, RecordedRun | AskanceError]:
    """Ask the unfinished questions of all experiments, and return each run or the error that ended it.

    Each model is loaded once, and all experiments with the model are checked before the first of them runs.
    If a model can't be loaded or refuses requests, or too many questions fail, the other experiments still
    run.

    Raises:
        RunFolderError, MissingAbility: As for `evaluate`.
    """
    results: dict[str, RecordedRun | AskanceError] = {}
    for _, group in groupby(experiments.items(), key=lambda entry: entry[0].split("/")[1]):
        of_model, load_once = dict(group), loading_once(load_models)
        for name, ready in of_model.items():
            with _keep_error(name, results, unless=(RunFolderError, MissingAbility)):
                start_run(ready, folder / name, load_once)
        for name in [name for name in of_model if name not in results]:
            with _keep_error(name, results, unless=(RunFolderError,)), listener(name) as progress:
                results[name] = await evaluate(of_model[name], folder / name, load_once, options, progress)
    return {name: results[name] for name in experiments}


@contextmanager
def _keep_error(
    name: str, results: dict[str, RecordedRun | AskanceError], unless: tuple[type[AskanceError], ...]
) -> Iterator[None]:
    """Store the error of an experiment as the result of that experiment, so that the other ones still run.

    Args:
        unless: The types of errors that end the whole grid, and are raised again.
    """
    try:
        yield
    except unless:
        raise
    except AskanceError as error:
        results[name] = error


def loading_once(load_models: LoadModels) -> LoadModels:
    """Return a function that loads each model specification at most once."""

    @cache
    def load(spec: Any) -> Model:
        return load_models({"answer": spec})["answer"]

    return lambda specs: {cast(Role, role): load(spec) for role, spec in specs.items()}
