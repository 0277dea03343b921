"""Asking all questions of a run: many in flight, each finished one kept before the next is counted."""

from collections.abc import Callable
from dataclasses import dataclass, field

from askance.ask import Result
from askance.core.errors import TooManyFailures
from askance.core.trace import Trace
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
    trace: Trace = field(default_factory=Trace)


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

    A question that fails, whatever broke, is kept with its reason and counts as answered wrongly.

    Args:
        standing: of the run before; kept up to date.
        in_flight: questions asked at the same time. It changes speed, and the seconds that each waits for
            the others, never answers.
        max_failures: stop when more questions of the run than this have failed.

    Raises:
        TooManyFailures: see `max_failures`; those in flight are abandoned.
        RunFolderError: the folder can't be written any more.
    """
    progress(standing)
    check_failures(standing, max_failures)
    attempts = (Attempt(number, example) for number, example in questions.items())
    finishing = many(attempts, lambda attempt: _answer(engine, attempt), in_flight)
    try:
        async for outcomes in finishing:
            finished = [(_record(outcome, scoring), outcome.item.trace) for outcome in outcomes]
            # Not in a thread: an interrupted thread would write to a file that has been closed.
            writer.add(finished)
            for record, _ in finished:
                standing.add(record)
            progress(standing)
            check_failures(standing, max_failures)
    finally:
        await finishing.aclose()


async def _answer(engine: Engine, attempt: Attempt) -> Result:
    retriever = engine.retriever
    if isinstance(retriever, GoldRetrievers):
        retriever = retriever.of(attempt.example)
    return await engine.answer_from(retriever, attempt.trace, attempt.example.question)


def _record(outcome: Outcome[Attempt, Result], scoring: Scoring) -> Record:
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
