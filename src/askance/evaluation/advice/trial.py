"""The trial of candidates: recorded runs over a growing number of questions, until the time is over.

In every round, all candidates are asked the same questions, twice as many as in the round before.
"""

import asyncio
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from askance.ask import check_needs
from askance.core.errors import DatasetError, InputError
from askance.evaluation.datasets.single_hop import NO_ANSWER
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.recorded_run import SETTINGS, RecordedRun, read_run
from askance.evaluation.run.runner import GridListener, LoadModels, RunOptions, run_grid

BASE = "single"
"""The candidate that the others are compared with."""
METRIC = "f1"
FIRST_ROUND = 12
"""The number of questions of the first round."""
LEAST_QUESTIONS = 8
"""The least number of answerable questions by which a candidate is compared."""
CANDIDATES: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_name("candidates.toml").read_text(encoding="utf-8")
)


@dataclass(frozen=True, slots=True)
class CandidateTrial:
    """The result of a trial.

    Attributes:
        runs: The run of each candidate that has a finished question, by the name of the candidate.
        left_out: The reason for each candidate that could not be tried, or that an error stopped, by name.
        is_timed_out: Whether the time ended before all questions were asked.
    """

    runs: Mapping[str, RecordedRun]
    left_out: Mapping[str, str]
    is_timed_out: bool


def ready_candidates(
    prepare: Mapping[str, Callable[[], ReadyExperiment]], questions: Path, load_models: LoadModels
) -> tuple[dict[str, ReadyExperiment], dict[str, str]]:
    """Return the candidates that can be tried, and the reason for each of the others.

    Args:
        prepare: A function for each candidate that prepares its experiment, by the name of the candidate.
        questions: The file with the questions.

    Raises:
        InputError: The base can't be tried, or the dataset has too few answerable questions.
    """
    ready, left_out = dict[str, ReadyExperiment](), dict[str, str]()
    for candidate, prepared in prepare.items():
        try:
            experiment = prepared()
            models = load_models(experiment.models)
            check_needs(experiment.method, models, experiment.retriever, experiment.encoder)
        except InputError as error:
            if candidate == BASE:
                raise
            left_out[candidate] = str(error)
        else:
            ready[candidate] = experiment
    examples = ready[BASE].questions.values()
    num_answerable = sum(example.golds != (NO_ANSWER,) for example in examples)
    if num_answerable < LEAST_QUESTIONS:
        raise DatasetError(
            f"{questions} has {num_answerable} answerable questions, and advice needs {LEAST_QUESTIONS}: add "
            "some, or delete the file to have it written again."
        )
    return ready, left_out


async def try_candidates(
    candidates: Mapping[str, ReadyExperiment],
    folder: Path,
    load_models: LoadModels,
    listener: GridListener,
    *,
    seconds: float,
) -> CandidateTrial:
    """Ask the candidates the questions, in rounds, and return their runs.

    Args:
        candidates: The candidates by name, the cheapest first.
        folder: The folder of the runs. Finished questions there are not asked again.
        seconds: The time, at most. Questions in flight at its end are abandoned.

    Raises:
        AskanceError: An error stopped the base.
        RunFolderError: A run in `folder` was started with other settings or questions.
    """
    ends = time.monotonic() + seconds
    left_out, names = dict[str, str](), [*candidates]
    num_all = len(candidates[BASE].questions)
    num_asked, is_timed_out = min(FIRST_ROUND, num_all), False
    while True:
        asked = {name: _first(candidates[name], num_asked, folder / name) for name in names}
        try:
            async with asyncio.timeout(max(0.0, ends - time.monotonic())):
                results = await run_grid(asked, folder, load_models, RunOptions(), listener)
        except TimeoutError:
            is_timed_out = True
            break
        errors = {name: each for name, each in results.items() if not isinstance(each, RecordedRun)}
        if BASE in errors:
            raise errors[BASE]
        left_out |= {name: str(error) for name, error in errors.items()}
        names = [name for name in names if name not in errors]
        if num_asked >= num_all:
            break
        num_asked = min(2 * num_asked, num_all)
    return CandidateTrial(_runs_in(folder, candidates), left_out, is_timed_out)


def _first(ready: ReadyExperiment, num_questions: int, folder: Path) -> ReadyExperiment:
    """Return an experiment with its first questions, and with all those of an earlier run in `folder`."""
    if (folder / SETTINGS).exists():
        num_questions = max(num_questions, read_run(folder).settings.num_questions)
    return replace(ready, questions=dict(islice(ready.questions.items(), num_questions)))


def _runs_in(folder: Path, names: Mapping[str, Any]) -> dict[str, RecordedRun]:
    runs = {name: read_run(folder / name) for name in names if (folder / name / SETTINGS).exists()}
    return {name: run for name, run in runs.items() if run.records}
