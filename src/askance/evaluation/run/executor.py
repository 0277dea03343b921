"""The port through which a run has its questions answered: by an engine here, or by workers elsewhere."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from askance.ask import Engine, Result, precisions_of
from askance.core.concurrency import ItemResult, map_concurrent
from askance.core.errors import LASTING, RequestRefused
from askance.core.trace import AnyEvent, Trace
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.run.dataset_retriever import DatasetRetrievers
from askance.evaluation.run.experiment import NumberedExamples, ReadyExperiment
from askance.evaluation.run.provenance import machine_here
from askance.evaluation.run.record import Record, make_record


@dataclass(frozen=True, slots=True)
class Attempt:
    """A question that is being asked, with its trace, which is kept even if the question fails."""

    number: int
    example: Example
    trace: Trace


Ask = Callable[[Attempt], Awaitable[Result]]
"""A function that answers a question, and records how in the trace of the attempt."""


@dataclass(frozen=True, slots=True)
class Executor:
    """The engine or the workers that answer the questions of one experiment. Its caller keeps the records.

    Attributes:
        in_flight: The number of questions that it answers at the same time.
        models: The names of the loaded models, by role.
        precisions: The data types that the models compute in, by role, where known.
        machine: A description of the machines that compute the answers.
    """

    ask: Ask
    in_flight: int
    models: Mapping[str, str]
    precisions: Mapping[str, str]
    machine: str


OnEnd = Callable[[Trace], None] | None
"""A callback that receives the complete trace of every question (see `Engine`), if there is one."""
OpenExecutor = Callable[[ReadyExperiment, OnEnd], Executor]
"""A function that makes the executor of an experiment."""


def local_executor(engine: Engine, in_flight: int) -> Executor:
    """Return an executor that asks an engine in this process."""
    names: dict[str, str] = {role: model.name for role, model in engine.models.items()}
    return Executor(
        partial(ask_engine, engine), in_flight, names, precisions_of(engine.models), machine_here()
    )


async def ask_engine(engine: Engine, attempt: Attempt) -> Result:
    """Answer a question. If the passages come from the dataset, they are those of the question."""
    retriever = engine.retriever
    if isinstance(retriever, DatasetRetrievers):
        retriever = retriever.of(attempt.example)
    return await engine.answer(attempt.example.question, trace=attempt.trace, retriever=retriever)


async def answer_all(
    ask: Ask,
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
        ask: The function that answers a question.
        in_flight: The number of questions that are answered at the same time. It changes the speed, and the
            seconds that each question takes, but never the answers.
        listen: A callback for the events of all questions.
        is_answered: Whether a question of the same work was answered before.

    Raises:
        ModelSpecError, MissingAbility: The model can't answer any question.
        RequestRefused: The server refused two questions, and no question has been answered.
        WorkersLost: No worker is left to ask.
    """
    attempts = (Attempt(number, example, Trace(listen)) for number, example in questions.items())
    refused = list[ItemResult[Attempt, Result]]()
    async with aclosing(map_concurrent(attempts, ask, in_flight)) as finishing:
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


def _finished(outcome: ItemResult[Attempt, Result], scoring: Scoring) -> tuple[Record, Trace]:
    attempt, error = outcome.item, outcome.error
    answer = None if outcome.result is None else outcome.result.answer
    message = "" if error is None else f"{type(error).__name__}: {error}"
    record = make_record(attempt.number, attempt.example, answer, attempt.trace, scoring, message)
    return record, attempt.trace
