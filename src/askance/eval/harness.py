"""Asking all questions of a run: many in flight, each finished one kept before the next is counted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from askance.ask import Result
from askance.core.errors import LASTING, RequestRefused, TooManyFailures
from askance.core.trace import AnyEvent, Noted, Trace
from askance.eval.datasets import Example
from askance.eval.gold import GoldRetrievers
from askance.eval.metrics import Scoring
from askance.eval.record import Record, make_record
from askance.eval.run_folder import RunWriter
from askance.eval.selection import Chosen
from askance.eval.standing import Standing
from askance.runtime.many import Outcome, many
from askance.wire import Engine

Progress = Callable[[Standing], None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One question that is being asked, and the trace it leaves, also when it fails."""

    number: int
    example: Example
    trace: Trace


_Outcome = Outcome[Attempt, Result]


async def ask_all(
    engine: Engine,
    questions: Chosen,
    writer: RunWriter,
    scoring: Scoring,
    standing: Standing,
    *,
    in_flight: int = 1,
    max_failures: int | None = None,
    progress: Progress = lambda standing: None,
) -> None:
    """Ask `questions`, those of a run that are not finished yet, and keep each as soon as it is.

    A question that fails, whatever broke, is kept with its reason and counts as answered wrongly. What the
    other questions would meet, too, ends the run, and no question is kept as failed for it.

    Args:
        standing: of the run before; kept up to date.
        in_flight: questions asked at the same time. It changes speed, and the seconds that each waits for
            the others, never answers.
        max_failures: stop when more questions of the run than this have failed.

    Raises:
        TooManyFailures: see `max_failures`; those in flight are abandoned.
        ModelSpecError, MissingAbility: of the model, which no further question would change.
        RequestRefused: the server refused two questions, and none of the run has been answered.
        RunFolderError: the folder can't be written any more.
    """
    progress(standing)
    check_failures(standing, max_failures)

    def listen(event: AnyEvent) -> None:
        if isinstance(event, Noted) and event.name == "retry":
            standing.num_retries += 1
            progress(standing)

    attempts = (Attempt(number, example, Trace(listen)) for number, example in questions.items())
    finishing = many(attempts, lambda attempt: _answer(engine, attempt), in_flight)
    refused = list[_Outcome]()

    def keep(outcomes: Sequence[_Outcome]) -> None:
        finished = [(_record(outcome, scoring), outcome.item.trace) for outcome in outcomes]
        # Not in a thread: an interrupted thread would write to a file that has been closed.
        writer.add(finished)
        for record, _ in finished:
            standing.add(record)
        progress(standing)

    try:
        async for outcomes in finishing:
            kept = [*refused, *(each for each in outcomes if not isinstance(each.error, LASTING))]
            refused = [] if _has_answers(standing, kept) else [each for each in kept if _is_refusal(each)]
            keep([each for each in kept if each not in refused])
            _check_lasting(outcomes, refused)
            check_failures(standing, max_failures)
        if refused:
            keep(refused)
    finally:
        await finishing.aclose()


def _is_refusal(outcome: _Outcome) -> bool:
    return isinstance(outcome.error, RequestRefused)


def _has_answers(standing: Standing, outcomes: Sequence[_Outcome]) -> bool:
    return standing.num_finished > standing.num_failures or any(each.error is None for each in outcomes)


def _check_lasting(outcomes: Sequence[_Outcome], refused: Sequence[_Outcome]) -> None:
    """Raise what ends the run. One refusal may be due to its question, where no other has been answered."""
    lasting = [each for each in outcomes if isinstance(each.error, LASTING)]
    for each in (*lasting, *refused[1:]):
        if each.error is not None:
            raise each.error


async def _answer(engine: Engine, attempt: Attempt) -> Result:
    retriever = engine.retriever
    if isinstance(retriever, GoldRetrievers):
        retriever = retriever.of(attempt.example)
    return await engine.answer(attempt.example.question, trace=attempt.trace, retriever=retriever)


def _record(outcome: _Outcome, scoring: Scoring) -> Record:
    attempt, error = outcome.item, outcome.error
    events, reading = attempt.trace.events, scoring.reading
    answer = None if outcome.result is None else reading.read(outcome.result.answer, events)
    scores = scoring.scores(attempt.example, answer, events)
    told = "" if error is None else f"{type(error).__name__}: {error}"
    return make_record(attempt.number, attempt.example, answer, attempt.trace, scores, told, reading.name)


def check_failures(standing: Standing, max_failures: int | None) -> None:
    """Raise `TooManyFailures` where more questions of a run have failed than it may have."""
    if max_failures is not None and standing.num_failures > max_failures:
        first = standing.first_failure.rstrip(".")
        raise TooManyFailures(
            f"{standing.num_failures} of {standing.num_finished} questions failed, more than --max-failures "
            f"{max_failures}; the first, {first}. What is finished is kept: allow more, or ask those that "
            "failed again with --retry-failures."
        )
