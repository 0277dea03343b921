"""Asking the questions of a cell: many in flight, each finished one kept before the next is counted."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from askance.ask import Engine, Result, precisions_of
from askance.core.concurrency import ItemResult, map_concurrent
from askance.core.errors import LASTING, RequestRefused, TooManyFailures
from askance.core.ports import Model
from askance.core.trace import AnyEvent, Noted, Trace
from askance.core.types import Role
from askance.evaluation.datasets import Example
from askance.evaluation.metrics import Scoring
from askance.evaluation.run.experiment import Chosen, ReadyCell
from askance.evaluation.run.gold_retriever import GoldRetrievers
from askance.evaluation.run.record import Record, make_record
from askance.evaluation.run.recorded_run import SETTINGS, RecordedRun, RunWriter, claimed, open_run, read_run
from askance.registry import choose_method

LoadModels = Callable[[Mapping[str, Any]], dict[Role, Model]]
"""Models by role from specifications by role, as `loading.load_models`."""
_95_PERCENT = 1.96


@dataclass(slots=True)
class RunningMean:
    """Mean and spread of numbers that come one by one (Welford 1962)."""

    count: int = 0
    mean: float = 0.0
    _squares: float = 0.0

    def add(self, value: float) -> None:
        """Take one more number."""
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self._squares += before * (value - self.mean)

    @property
    def margin(self) -> float:
        """Half the width of the 95 % interval of the mean, by the normal approximation; infinite below 2."""
        if self.count < 2:
            return math.inf
        return _95_PERCENT * math.sqrt(self._squares / (self.count - 1) / self.count)


@dataclass(slots=True)
class RunStatus:
    """The numbers of a run so far: means in memory that does not grow with it.

    Attributes:
        num_questions: of the whole run.
        num_before: finished when this process began.
        tokens_computed: by this process: prompt tokens that no cache had, and generated ones.
        num_retries: calls of this process that were made again.
    """

    num_questions: int
    metrics: dict[str, RunningMean]
    searches: RunningMean = field(default_factory=RunningMean)
    num_before: int = 0
    num_finished: int = 0
    num_failures: int = 0
    first_failure: str = ""
    tokens_computed: int = 0
    num_retries: int = 0
    began: float = field(default_factory=time.perf_counter)

    @classmethod
    def of(cls, num_questions: int, metrics: Iterable[str], finished: Iterable[Record]) -> "RunStatus":
        """The standing of a run of which some questions are finished."""
        standing = cls(num_questions, {name: RunningMean() for name in metrics})
        for record in finished:
            standing.add(record)
        standing.num_before, standing.tokens_computed = standing.num_finished, 0
        return standing

    def add(self, record: Record) -> None:
        """Take a finished question."""
        self.num_finished += 1
        self.searches.add(record.usage.searches)
        self.tokens_computed += record.usage.computed_tokens
        for name, mean in self.metrics.items():
            score = record.scores[name]
            if score is not None:
                mean.add(score)
        if record.is_failure:
            self.num_failures += 1
            self.first_failure = self.first_failure or f"{record.id}: {record.error}"

    @property
    def seconds(self) -> float:
        """Since this process began."""
        return time.perf_counter() - self.began

    @property
    def tokens_per_second(self) -> float:
        """Tokens computed by this process, in the time it took."""
        return self.tokens_computed / self.seconds

    @property
    def seconds_left(self) -> float | None:
        """If the others take as long as those that this process has answered; None before the first."""
        asked = self.num_finished - self.num_before
        return (self.num_questions - self.num_finished) * self.seconds / asked if asked else None


Progress = Callable[[RunStatus], None]


@dataclass(frozen=True, slots=True)
class Terms:
    """How a run is carried out; none of it changes an answer.

    Attributes:
        max_failures: stop when more questions of the run than this have failed.
        retry_failures: ask the questions again that failed before.
    """

    max_failures: int | None = None
    retry_failures: bool = False


async def evaluate(
    ready: ReadyCell,
    folder: Path,
    load_models: LoadModels,
    terms: Terms = Terms(),
    progress: Progress = lambda standing: None,
) -> RecordedRun:
    """Ask the questions of a cell that are not finished in `folder` yet; gives the whole run.

    No model is loaded where none is left to ask.

    Raises:
        RunFolderError: the folder can't be used for this cell.
        MissingAbility: models or index do not meet the method's needs.
        TooManyFailures: see `_ask_all`.
    """
    with _opened(ready, folder, load_models, terms) as (engine, writer, before):
        standing = RunStatus.of(len(ready.questions), ready.scoring.names, before.records)
        done = {record.id for record in before.records}
        left = {number: each for number, each in ready.questions.items() if each.question.id not in done}
        progress(standing)
        _check_failures(standing, terms.max_failures)
        if engine is not None:
            await _ask_all(engine, left, ready, writer, standing, terms, progress)
        return read_run(folder)


def begin(ready: ReadyCell, folder: Path, load_models: LoadModels) -> None:
    """Find out what else can be wrong with a cell once its models are there, and begin its run.

    Raises:
        RunFolderError, MissingAbility: as for `evaluate`.
    """
    with _opened(ready, folder, load_models, Terms()):
        pass


@contextmanager
def _opened(
    ready: ReadyCell, folder: Path, load_models: LoadModels, terms: Terms
) -> Iterator[tuple[Engine | None, RunWriter, RecordedRun]]:
    """The engine, None where no question is left to ask, a writer, and the run as far as it is finished."""
    with claimed(folder):
        engine, run = None, read_run(folder) if (folder / SETTINGS).exists() else None
        if run is not None and _is_finished(run, ready, terms):
            settings = ready.settings(run.settings.models, run.settings.precisions)
        else:
            engine = _engine(ready, load_models)
            names: dict[str, str] = {role: model.name for role, model in engine.models.items()}
            settings = ready.settings(names, precisions_of(engine.models))
        examples = ready.questions.values()
        with open_run(
            folder, settings, examples, ready.scoring, retry_failures=terms.retry_failures
        ) as opened:
            yield engine, *opened


def _is_finished(run: RecordedRun, ready: ReadyCell, terms: Terms) -> bool:
    done = {record.id for record in run.records if not (terms.retry_failures and record.is_failure)}
    return {example.question.id for example in ready.questions.values()} <= done


def _engine(ready: ReadyCell, load_models: LoadModels) -> Engine:
    cell = ready.cell
    models = cell.cached_models(load_models(cell.models))
    method, _ = choose_method(cell.make, cell.method, models, ready.retriever, ready.encoder)
    return cell.engine(method, models, ready.retriever, ready.encoder)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One question that is being asked, and the trace it leaves, also when it fails."""

    number: int
    example: Example
    trace: Trace


_Outcome = ItemResult[Attempt, Result]


async def _ask_all(
    engine: Engine,
    questions: Chosen,
    ready: ReadyCell,
    writer: RunWriter,
    standing: RunStatus,
    terms: Terms,
    progress: Progress,
) -> None:
    """Ask `questions`, those of a run that are not finished yet, and keep each as soon as it is.

    A question that fails, whatever broke, is kept with its reason and counts as answered wrongly. What the
    other questions would meet, too, ends the run, and no question is kept as failed for it.

    Args:
        standing: of the run before; kept up to date.
        ready: says how many questions are in flight: it changes speed, and the seconds that each waits for
            the others, never answers.

    Raises:
        TooManyFailures: more questions of the run have failed than it may have; those in flight are
            abandoned.
        ModelSpecError, MissingAbility: of the model, which no further question would change.
        RequestRefused: the server refused two questions, and none of the run has been answered.
        RunFolderError: the folder can't be written any more.
    """

    def listen(event: AnyEvent) -> None:
        if isinstance(event, Noted) and event.name == "retry":
            standing.num_retries += 1
            progress(standing)

    attempts = (Attempt(number, example, Trace(listen)) for number, example in questions.items())
    refused = list[_Outcome]()

    def keep(outcomes: Sequence[_Outcome]) -> None:
        finished = [(_record(outcome, ready.scoring), outcome.item.trace) for outcome in outcomes]
        # Not in a thread: an interrupted thread would write to a file that has been closed.
        writer.add(finished)
        for record, _ in finished:
            standing.add(record)
        progress(standing)

    work = map_concurrent(attempts, lambda attempt: _answer(engine, attempt), ready.cell.questions_in_flight)
    async with aclosing(work) as finishing:
        async for outcomes in finishing:
            lasting = [each for each in outcomes if isinstance(each.error, LASTING)]
            kept = [*refused, *(each for each in outcomes if not isinstance(each.error, LASTING))]
            is_answered = any(each.error is None for each in kept)
            has_answers = is_answered or standing.num_finished > standing.num_failures
            refused = [each for each in kept if not has_answers and isinstance(each.error, RequestRefused)]
            keep([each for each in kept if each not in refused])
            # One refusal may be due to its question, where no other has been answered.
            for each in (*lasting, *refused[1:]):
                if each.error is not None:
                    raise each.error
            _check_failures(standing, terms.max_failures)
        if refused:
            keep(refused)


async def _answer(engine: Engine, attempt: Attempt) -> Result:
    retriever = engine.retriever
    if isinstance(retriever, GoldRetrievers):
        retriever = retriever.of(attempt.example)
    return await engine.answer(attempt.example.question, trace=attempt.trace, retriever=retriever)


def _record(outcome: _Outcome, scoring: Scoring) -> Record:
    attempt, error = outcome.item, outcome.error
    answer = None if outcome.result is None else outcome.result.answer
    told = "" if error is None else f"{type(error).__name__}: {error}"
    return make_record(attempt.number, attempt.example, answer, attempt.trace, scoring, told)


def _check_failures(standing: RunStatus, max_failures: int | None) -> None:
    """Raise `TooManyFailures` where more questions of a run have failed than it may have."""
    if max_failures is not None and standing.num_failures > max_failures:
        first = standing.first_failure.rstrip(".")
        raise TooManyFailures(
            f"{standing.num_failures} of {standing.num_finished} questions failed, more than --max-failures "
            f"{max_failures}; the first, {first}. What is finished is kept: allow more, or ask those that "
            "failed again with --retry-failures."
        )
