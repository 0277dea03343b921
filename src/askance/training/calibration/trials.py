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
from askance.core.parameters import method_spec, name_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedMethod:
    """The part of a calibration's result that does not depend on its aim.

    Attributes:
        method: The repr of the method with all parameters, including the calibrated value if there is one.
        title: The specification of the method, as tables show it.
        failures: The failed questions, each with the value that was tried. A question that failed once is
            left out of all means.
        num_counted: The number of questions that count in all means.
        remark: A remark about the result for the user; may be empty.
    """

    method_name: str
    method: str
    title: str
    model: str
    parameter: str
    failures: tuple[TrialFailure, ...]
    num_questions: int
    num_counted: int
    remark: str


@dataclass(slots=True)
class Trials:
    """Trials of several values of one parameter, with the same engine and the same questions.

    Attributes:
        completed: The trials so far.
        failures: The failures of all trials.
    """

    engine: Engine
    parameter: str
    questions: Sequence[Question]
    in_flight: int = 1
    on_progress: OnProgress = lambda trial, value, done, searches: None
    judge: JudgeAnswer = lambda index, answer, trace: None
    completed: list[Trial] = field(default_factory=list, init=False)
    failures: list[TrialFailure] = field(default_factory=list, init=False)

    async def run(self, number: int, value: float) -> None:
        """Answer every question with the parameter at `value`, and keep the trial and its failures.

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
        self.failures += (
            TrialFailure(attempt.question.id, value, attempt.error)
            for attempt in attempts
            if attempt.error is not None
        )
        decisions = [
            tuple(word.value for word in decision.words)
            for attempt in attempts
            for decision in attempt.trace.decisions
            if decision.threshold == value
        ]
        usages = tuple(attempt.usage for attempt in attempts)
        scores = (self.judge(index, attempt.answer, attempt.trace) for index, attempt in enumerate(attempts))
        self.completed.append(Trial(value, usages, tuple(decisions), tuple(scores)))

    def answered(self) -> list[int]:
        """Return the indices of the questions that never failed, so that all means cover the same questions.

        Raises:
            AskanceError: Every question failed.
        """
        by_question = zip(*(trial.usages for trial in self.completed), strict=True)
        answered = [index for index, usages in enumerate(by_question) if None not in usages]
        if not answered:
            first = self.failures[0]
            raise AskanceError(
                f"no question was answered with every value tried; the first failure, {first.question_id}: "
                f"{first.error}"
            )
        return answered

    def description(self, value: float | None) -> dict[str, Any]:
        """Return the fields of `CalibratedMethod` that don't depend on the aim, for a calibrated value."""
        method: Any = self.engine.method
        changed: dict[str, Any] = {} if value is None else {self.parameter: value}
        return {
            "method_name": name_of(type(method)),
            "method": str(method_spec(replace(method, **changed), is_whole=True)),
            "title": name_of(type(method)),
            "model": self.engine.models["answer"].name,
            "parameter": self.parameter,
            "failures": tuple(self.failures),
            "num_questions": len(self.questions),
        }


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
