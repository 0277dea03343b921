"""Try one value of a parameter: let the method answer all questions with it, and count the searches."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from askance.ask import Engine
from askance.core.answers import Answer, Usage
from askance.core.concurrency import map_concurrent
from askance.core.errors import LASTING, AskanceError
from askance.core.trace import Trace
from askance.core.types import Question

OnProgress = Callable[[int, float, int, float | None], None]
"""A callback for the progress of a trial. It takes the number of the trial, the value, the number of
questions done, and the mean number of searches. The mean is None until all questions are done, and stays None
if all of them failed."""
JudgeAnswer = Callable[[int, Answer | None, Trace], float | None]
"""A function from a question's index, its answer and its trace to a score; None if there is none."""


@dataclass(frozen=True, slots=True)
class TrialFailure:
    """A question that could not be answered with one value of the parameter."""

    question_id: str
    value: float
    error: str


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of answering all questions with one value of the parameter.

    Attributes:
        usages: The usage of each question; None for a question that failed.
        decisions: For each decision, the numbers that were compared with the value.
        scores: The score of each question.
    """

    value: float
    usages: tuple[Usage | None, ...]
    decisions: tuple[tuple[float, ...], ...]
    scores: tuple[float | None, ...] = ()


@dataclass(slots=True)
class Trials:
    """Trials of several values of one parameter, with the same engine and the same questions."""

    engine: Engine
    parameter: str
    questions: Sequence[Question]
    in_flight: int = 1
    on_progress: OnProgress = lambda trial, value, done, searches: None
    judge: JudgeAnswer = lambda index, answer, trace: None

    async def run(self, number: int, value: float) -> tuple[Trial, tuple[TrialFailure, ...]]:
        """Answer every question with the parameter at `value`, and return the trial and the failures.

        A failed question does not stop the other questions.
        """
        changed: dict[str, Any] = {self.parameter: value}
        method: Any = self.engine.method
        engine = replace(self.engine, method=replace(method, **changed))
        attempts = [_Attempt(question) for question in self.questions]
        done = 0
        async with aclosing(
            map_concurrent(attempts, lambda attempt: _ask(engine, attempt), self.in_flight)
        ) as finishing:
            self.on_progress(number, value, done, None)
            async for outcomes in finishing:
                for outcome in outcomes:
                    if outcome.error is not None:
                        raise outcome.error
                done += len(outcomes)
                if done < len(attempts):
                    self.on_progress(number, value, done, None)
        counts = [attempt.usage.searches for attempt in attempts if attempt.usage is not None]
        self.on_progress(number, value, done, fmean(counts) if counts else None)
        failures = tuple(
            TrialFailure(attempt.question.id, value, attempt.error)
            for attempt in attempts
            if attempt.error is not None
        )
        decisions = [numbers for attempt in attempts for numbers in _compared_numbers(attempt.trace, value)]
        usages = tuple(attempt.usage for attempt in attempts)
        scores = (self.judge(index, attempt.answer, attempt.trace) for index, attempt in enumerate(attempts))
        return Trial(value, usages, tuple(decisions), tuple(scores)), failures


def answered_questions(completed: Sequence[Trial]) -> list[int]:
    """Return the indices of the questions that never failed, so that all means cover the same questions."""
    by_question = zip(*(trial.usages for trial in completed), strict=True)
    return [index for index, usages in enumerate(by_question) if None not in usages]


def nothing_answered(failures: Sequence[TrialFailure]) -> AskanceError:
    """Return the error for trials in which every question failed."""
    return AskanceError(
        f"no question was answered with every value tried; the first failure, {failures[0].question_id}: "
        f"{failures[0].error}"
    )


async def _ask(engine: Engine, attempt: "_Attempt") -> None:
    try:
        result = await engine.answer(attempt.question, trace=attempt.trace)
        attempt.answer, attempt.usage = result.answer, result.usage
    except LASTING:
        raise
    except AskanceError as error:
        attempt.error = str(error)


@dataclass(slots=True)
class _Attempt:
    question: Question
    trace: Trace = field(default_factory=Trace)
    answer: Answer | None = None
    usage: Usage | None = None
    error: str | None = None


def _compared_numbers(trace: Trace, value: float) -> list[tuple[float, ...]]:
    decisions = [decision for decision in trace.decisions if decision.threshold == value]
    return [tuple(word.value for word in decision.words) for decision in decisions]
