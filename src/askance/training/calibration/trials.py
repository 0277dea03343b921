"""Trying one value of a parameter: a method answers all questions with it, and its searches are counted."""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from askance.ask import Engine
from askance.core.concurrency import map_concurrent
from askance.core.errors import LASTING, AskanceError
from askance.core.trace import Trace
from askance.core.types import Question, Usage

Progress = Callable[[int, float, int, float | None], None]
"""Is told the number of the trial, the value on trial, how many questions are done, and, when all are, the
mean searches of those that did not fail (None while some are not done, or when all failed)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A question that could not be answered with one value of the parameter."""

    question_id: str
    value: float
    error: str


@dataclass(frozen=True, slots=True)
class Trial:
    """What one value of the parameter led to.

    Attributes:
        usages: what each question cost; None where it failed.
        decisions: of each decision the numbers that were held against this value.
    """

    value: float
    usages: tuple[Usage | None, ...]
    decisions: tuple[tuple[float, ...], ...]


@dataclass(slots=True)
class Trials:
    """The same questions for the same engine, with one parameter turned; `in_flight` questions at a time."""

    engine: Engine
    parameter: str
    questions: Sequence[Question]
    in_flight: int = 1
    progress: Progress = lambda trial, value, done, searches: None

    async def run(self, number: int, value: float) -> tuple[Trial, tuple[Failure, ...]]:
        """Answer every question with the parameter at `value`; a failure is noted, and the others go on."""
        turned: dict[str, Any] = {self.parameter: value}
        method: Any = self.engine.method
        engine = replace(self.engine, method=replace(method, **turned))
        attempts = [_Attempt(question) for question in self.questions]
        done = 0
        async with aclosing(
            map_concurrent(attempts, lambda each: _ask(engine, each), self.in_flight)
        ) as finishing:
            self.progress(number, value, done, None)
            async for outcomes in finishing:
                for outcome in outcomes:
                    if outcome.error is not None:
                        raise outcome.error
                done += len(outcomes)
                if done < len(attempts):
                    self.progress(number, value, done, None)
        counts = [attempt.usage.searches for attempt in attempts if attempt.usage is not None]
        self.progress(number, value, done, fmean(counts) if counts else None)
        failures = tuple(
            Failure(each.question.id, value, each.error) for each in attempts if each.error is not None
        )
        decisions = [held for attempt in attempts for held in _numbers(attempt.trace, value)]
        return Trial(value, tuple(each.usage for each in attempts), tuple(decisions)), failures


async def _ask(engine: Engine, attempt: "_Attempt") -> None:
    try:
        attempt.usage = (await engine.answer(attempt.question, trace=attempt.trace)).usage
    except LASTING:
        raise
    except AskanceError as error:
        attempt.error = str(error)


@dataclass(slots=True)
class _Attempt:
    question: Question
    trace: Trace = field(default_factory=Trace)
    usage: Usage | None = None
    error: str | None = None


def _numbers(trace: Trace, value: float) -> list[tuple[float, ...]]:
    held = [decision for decision in trace.decisions if decision.threshold == value]
    return [tuple(word.value for word in decision.words) for decision in held]
