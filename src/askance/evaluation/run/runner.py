"""Run experiments with many questions in flight, and store each finished question before it is counted."""

import math
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from askance.ask import Engine, Result, precisions_of
from askance.core.concurrency import ItemResult, map_concurrent
from askance.core.errors import (
    LASTING,
    AskanceError,
    MissingAbility,
    RequestRefused,
    RunFolderError,
    TooManyFailures,
)
from askance.core.ports import RoleModel
from askance.core.trace import AnyEvent, Noted, Trace
from askance.core.types import Role
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.run.dataset_retriever import DatasetRetrievers
from askance.evaluation.run.experiment import NumberedExamples, ReadyExperiment
from askance.evaluation.run.record import Record, Settings, make_record
from askance.evaluation.run.recorded_run import RecordedRun, RunWriter, open_run, read_run

LoadModels = Callable[[Mapping[str, Any]], dict[Role, RoleModel]]
"""A function from specifications by role to models by role, such as `build.load_models`."""
_95_PERCENT = 1.96


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
    """

    max_failures: int | None = None
    retry_failures: bool = False
    accept_new_code: bool = False
    on_end: Callable[[Trace], None] | None = None
    may_lack_abilities: bool = False


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
    with _opened(ready, folder, load_models, options) as (engine, writer, before):
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
        if engine is not None:
            is_answered = status.num_finished > status.num_failures
            work = answer_all(
                engine, left, ready.scoring, ready.in_flight, listen=listen, is_answered=is_answered
            )
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
) -> Iterator[tuple[Engine | None, RunWriter, RecordedRun]]:
    """Yield the engine (None if no question is left to ask), a writer, and the run so far."""
    engine: Engine | None = None

    def settings_of(before: Settings | None) -> Settings:
        nonlocal engine
        if before is not None:
            return ready.settings(before.models, before.precisions)
        engine = replace(ready.engine(load_models(ready.models)), on_end=options.on_end)
        names: dict[str, str] = {role: model.name for role, model in engine.models.items()}
        return ready.settings(names, precisions_of(engine.models))

    examples = ready.questions.values()
    how = {"retry_failures": options.retry_failures, "accept_new_code": options.accept_new_code}
    with open_run(folder, settings_of, examples, ready.scoring, **how) as (writer, run):
        yield engine, writer, run


@dataclass(frozen=True, slots=True)
class Attempt:
    """A question that is being asked, with its trace, which is kept even if the question fails."""

    number: int
    example: Example
    trace: Trace


async def answer_all(
    engine: Engine,
    questions: NumberedExamples,
    scoring: Scoring,
    in_flight: int,
    *,
    listen: Callable[[AnyEvent], None] | None = None,
    is_answered: bool = False,
) -> AsyncGenerator[list[tuple[Record, Trace]]]:
    """Answer questions, and yield their records with their traces in batches as they finish.

    A question that fails has a record with its error. An error that all other questions would also meet ends
    the work instead, and is not recorded as the failure of a question.

    Args:
        in_flight: The number of questions that are answered at the same time. It changes the speed, and the
            seconds that each question takes, but never the answers.
        listen: A callback for the events of all questions.
        is_answered: Whether a question of the same work was answered before.

    Raises:
        ModelSpecError, MissingAbility: The model can't answer any question.
        RequestRefused: The server refused two questions, and no question has been answered.
    """
    attempts = (Attempt(number, example, Trace(listen)) for number, example in questions.items())
    refused = list[ItemResult[Attempt, Result]]()
    work = map_concurrent(attempts, lambda attempt: _answer(engine, attempt), in_flight)
    async with aclosing(work) as finishing:
        async for outcomes in finishing:
            lasting = [each for each in outcomes if isinstance(each.error, LASTING)]
            kept = [*refused, *(each for each in outcomes if not isinstance(each.error, LASTING))]
            is_answered = is_answered or any(each.error is None for each in kept)
            refused = [each for each in kept if not is_answered and isinstance(each.error, RequestRefused)]
            yield [_finished(each, scoring) for each in kept if each not in refused]
            # Until a question has been answered, a single refusal may be due to its question.
            for each in (*lasting, *refused[1:]):
                if each.error is not None:
                    raise each.error
        if refused:
            yield [_finished(each, scoring) for each in refused]


async def _answer(engine: Engine, attempt: Attempt) -> Result:
    retriever = engine.retriever
    if isinstance(retriever, DatasetRetrievers):
        retriever = retriever.of(attempt.example)
    return await engine.answer(attempt.example.question, trace=attempt.trace, retriever=retriever)


def _finished(outcome: ItemResult[Attempt, Result], scoring: Scoring) -> tuple[Record, Trace]:
    attempt, error = outcome.item, outcome.error
    answer = None if outcome.result is None else outcome.result.answer
    message = "" if error is None else f"{type(error).__name__}: {error}"
    record = make_record(attempt.number, attempt.example, answer, attempt.trace, scoring, message)
    return record, attempt.trace


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
    run.

    Raises:
        RunFolderError: As for `evaluate`.
        MissingAbility: As for `evaluate`, unless `options` allows it.
    """
    fatal = (RunFolderError,) if options.may_lack_abilities else (RunFolderError, MissingAbility)
    results: dict[str, RecordedRun | AskanceError] = {}
    for _, group in groupby(experiments.items(), key=lambda entry: entry[1].model_specs["answer"]):
        of_model, load_once = dict(group), loading_once(load_models)
        for name, ready in of_model.items():
            try:
                with _opened(ready, folder / name, load_once, options):
                    pass  # This creates the run's folder, and checks the models.
            except fatal:
                raise
            except AskanceError as error:
                results[name] = error
        for name in [name for name in of_model if name not in results]:
            try:
                with listener(name) as progress:
                    results[name] = await evaluate(
                        of_model[name], folder / name, load_once, options, progress
                    )
            except RunFolderError:
                raise
            except AskanceError as error:
                results[name] = error
    return {name: results[name] for name in experiments}


def loading_once(load_models: LoadModels) -> LoadModels:
    """Return a function that loads each model specification at most once."""

    @cache
    def load(spec: Any) -> RoleModel:
        return load_models({"answer": spec})["answer"]

    return lambda specs: {cast(Role, role): load(spec) for role, spec in specs.items()}
