"""Run experiments with many questions in flight, and store each finished question before it is counted."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from askance.core.errors import AskanceError, MissingAbility, RunFolderBusy, RunFolderError, TooManyFailures
from askance.core.notes import note
from askance.core.ports import RoleModel
from askance.core.trace import AnyEvent, Noted
from askance.core.types import Role
from askance.evaluation.run.executor import Executor, OnEnd, OpenExecutor, answer_all, local_executor
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.record import Record, Settings
from askance.evaluation.run.recorded_run import RecordedRun, RunWriter, open_run, read_run

LoadModels = Callable[[Mapping[str, Any]], dict[Role, RoleModel]]
"""A function from specifications by role to models by role, such as `build.load_models`."""
_95_PERCENT = 1.96
_HELD_SECONDS = 5.0


@dataclass(slots=True)
class RunningMean:
    """The mean and the variance of numbers that arrive one by one (Welford 1962)."""

    count: int = 0
    mean: float = 0.0
    _squares: float = 0.0

    def add(self, value: float) -> None:
        """Add a number."""
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self._squares += before * (value - self.mean)

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the mean (normal approximation).

        It is infinite if there are fewer than two numbers.
        """
        if self.count < 2:
            return math.inf
        return _95_PERCENT * math.sqrt(self._squares / (self.count - 1) / self.count)


@dataclass(slots=True)
class RunStatus:
    """The status of a run, which takes the same memory for any number of questions.

    Attributes:
        num_questions: The number of questions of the whole run.
        metrics: The running means of the metrics, by name.
        searches: The running mean of the number of searches.
        num_before: The number of questions that were finished when this process started.
        num_finished: The number of finished questions, including failed ones.
        first_failure: The id and the error of the first question that failed.
        tokens_generated: The tokens that this process generated.
        num_retries: The number of model calls that this process repeated.
        began: The time when this process started, in seconds of `time.perf_counter`.
    """

    num_questions: int
    metrics: dict[str, RunningMean]
    searches: RunningMean = field(default_factory=RunningMean)
    num_before: int = 0
    num_finished: int = 0
    num_failures: int = 0
    first_failure: str = ""
    tokens_generated: int = 0
    num_retries: int = 0
    began: float = field(default_factory=time.perf_counter)

    @classmethod
    def of(cls, num_questions: int, metrics: Iterable[str], finished: Iterable[Record]) -> "RunStatus":
        """Return the status of a run with these finished questions."""
        status = cls(num_questions, {name: RunningMean() for name in metrics})
        for record in finished:
            status.add(record)
        status.num_before, status.tokens_generated = status.num_finished, 0
        return status

    def add(self, record: Record) -> None:
        """Add a finished question."""
        self.num_finished += 1
        self.searches.add(record.usage.searches)
        self.tokens_generated += record.usage.generated_tokens
        for name, mean in self.metrics.items():
            score = record.scores[name]
            if score is not None:
                mean.add(score)
        if record.is_failure:
            self.num_failures += 1
            self.first_failure = self.first_failure or f"{record.id}: {record.error}"

    @property
    def seconds(self) -> float:
        """The seconds since this process started."""
        return time.perf_counter() - self.began

    @property
    def tokens_per_second(self) -> float:
        """The tokens that this process has generated per second."""
        return self.tokens_generated / self.seconds

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds for the remaining questions, or None before the first finished question.

        Only questions that this process has asked count for the estimate.
        """
        asked = self.num_finished - self.num_before
        return (self.num_questions - self.num_finished) * self.seconds / asked if asked else None


Progress = Callable[[RunStatus], None]
GridListener = Callable[[str], AbstractContextManager[Progress]]
"""A function from the name of an experiment to a context manager that yields the progress listener."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run that do not change its answers.

    Attributes:
        max_failures: The number of questions that may fail before the run stops; None means any number.
        retry_failures: Whether to ask questions again that failed before.
        accept_new_code: Whether to continue a run that was started with other code.
        on_end: A callback that receives the complete trace of every question (see `Engine`).
        may_lack_abilities: Whether the other experiments of a grid still run if a model lacks an ability
            that one of them needs.
        open_executor: What makes the executor of each experiment; None for an engine in this process.
    """

    max_failures: int | None = None
    retry_failures: bool = False
    accept_new_code: bool = False
    on_end: OnEnd = None
    may_lack_abilities: bool = False
    open_executor: OpenExecutor | None = None


async def evaluate(
    ready: ReadyExperiment,
    folder: Path,
    load_models: LoadModels,
    options: RunOptions = RunOptions(),
    progress: Progress = lambda status: None,
) -> RecordedRun:
    """Ask the questions of an experiment that are not finished in `folder` yet, and return the whole run.

    If no question is left, no model is loaded.

    Raises:
        RunFolderError: The folder can't be used for this experiment.
        MissingAbility: The models or the index do not meet the method's needs.
        TooManyFailures: More questions have failed than `options` allows.
        ModelSpecError, RequestRefused: The model can't answer any question (see `answer_all`).
    """
    with _opened(ready, folder, load_models, options) as (executor, writer, before):
        status = RunStatus.of(len(ready.questions), ready.scoring.names, before.records)
        done = {record.id for record in before.records}
        seconds_before = max((record.run_seconds for record in before.records), default=0.0)
        left = {number: each for number, each in ready.questions.items() if each.question.id not in done}

        def listen(event: AnyEvent) -> None:
            if isinstance(event, Noted) and event.name == "retry":
                status.num_retries += 1
                progress(status)

        progress(status)
        _check_failures(status, options.max_failures)
        if executor is not None:
            how: dict[str, Any] = {"is_answered": status.num_finished > status.num_failures}
            how |= {"in_flight": executor.in_flight, "listen": listen}
            work = answer_all(executor.ask, left, ready.scoring, **how)
            async with aclosing(work) as finishing:
                async for finished in finishing:
                    seconds = seconds_before + status.seconds
                    finished = [(replace(each, run_seconds=seconds), trace) for each, trace in finished]
                    # This does not run in a thread: an interrupted thread would write to a closed file.
                    writer.add(finished)
                    for record, _ in finished:
                        status.add(record)
                    progress(status)
                    _check_failures(status, options.max_failures)
        return read_run(folder)


@contextmanager
def _opened(
    ready: ReadyExperiment, folder: Path, load_models: LoadModels, options: RunOptions
) -> Iterator[tuple[Executor | None, RunWriter, RecordedRun]]:
    """Yield the executor (None if no question is left to ask), a writer, and the run so far."""
    executor: Executor | None = None

    def settings_of(before: Settings | None) -> Settings:
        nonlocal executor
        if before is not None:
            return ready.settings(before.models, before.precisions)
        if options.open_executor is None:
            engine = replace(ready.engine(load_models(ready.models)), on_end=options.on_end)
            executor = local_executor(engine, ready.in_flight)
        else:
            executor = options.open_executor(ready, options.on_end)
        settings = ready.settings(executor.models, executor.precisions)
        return replace(settings, machine=executor.machine, in_flight=str(executor.in_flight))

    examples = ready.questions.values()
    how = {"retry_failures": options.retry_failures, "accept_new_code": options.accept_new_code}
    with open_run(folder, settings_of, examples, ready.scoring, **how) as (writer, run):
        yield executor, writer, run


def _check_failures(status: RunStatus, max_failures: int | None) -> None:
    """Raise `TooManyFailures` if more questions of a run have failed than allowed."""
    if max_failures is not None and status.num_failures > max_failures:
        first = status.first_failure.rstrip(".")
        raise TooManyFailures(
            f"{status.num_failures} of {status.num_finished} questions failed, more than --max-failures "
            f"{max_failures}; the first, {first}. Finished questions are kept: allow more failures, or ask "
            "the failed questions again with --retry-failures."
        )


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
    run. An experiment whose run another process is writing is left for the end.

    Raises:
        RunFolderError: As for `evaluate`, unless the run is only busy.
        MissingAbility: As for `evaluate`, unless `options` allows it.
    """
    fatal = (RunFolderError,) if options.may_lack_abilities else (RunFolderError, MissingAbility)
    results, left = dict[str, RecordedRun | AskanceError](), dict(experiments)
    while left:
        for _, group in groupby(left.items(), key=lambda entry: entry[1].model_specs["answer"]):
            of_model, load_once = dict(group), loading_once(load_models)
            for name, ready in of_model.items():
                results.pop(name, None)
                with _failures_in(results, name, fatal), _opened(ready, folder / name, load_once, options):
                    pass  # This creates the run's folder, and checks the models.
            for name in [name for name in of_model if name not in results]:
                with _failures_in(results, name, (RunFolderError,)), listener(name) as progress:
                    results[name] = await evaluate(
                        of_model[name], folder / name, load_once, options, progress
                    )
        num_left = len(left)
        left = {name: each for name, each in left.items() if isinstance(results[name], RunFolderBusy)}
        if len(left) == num_left:
            note("held", f"another process works on {', '.join(left)}: waiting for it.")
            await asyncio.sleep(_HELD_SECONDS)
    return {name: results[name] for name in experiments}


@contextmanager
def _failures_in(
    results: dict[str, RecordedRun | AskanceError], name: str, fatal: tuple[type[AskanceError], ...]
) -> Iterator[None]:
    """Keep the error of an experiment in the results, and raise a fatal one unless the run is only busy."""
    try:
        yield
    except AskanceError as error:
        if isinstance(error, fatal) and not isinstance(error, RunFolderBusy):
            raise
        results[name] = error


def loading_once(load_models: LoadModels) -> LoadModels:
    """Return a function that loads each model specification at most once."""

    @cache
    def load(spec: Any) -> RoleModel:
        return load_models({"answer": spec})["answer"]

    return lambda specs: {cast(Role, role): load(spec) for role, spec in specs.items()}
