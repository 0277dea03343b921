"""Trying one value of a knob: a method answers all questions with it, and its searches are counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from askance.ask import ask
from askance.core.errors import AskanceError
from askance.core.ports import Method, Model, Retriever
from askance.core.trace import Trace
from askance.core.types import Question, Role, Usage

Progress = Callable[[int, float, int, float | None], None]
"""Is told the number of the trial, the value on trial, how many questions are done, and, when all are, the
mean searches of those that did not fail (None while some are not done, or when all failed)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A question that could not be answered with one value of the knob."""

    question_id: str
    value: float
    error: str


@dataclass(frozen=True, slots=True)
class Trial:
    """What one value of the knob led to.

    Attributes:
        usages: what each question cost; None where it failed.
        decisions: of each decision the numbers that were held against this value.
    """

    value: float
    usages: tuple[Usage | None, ...]
    decisions: tuple[tuple[float, ...], ...]


@dataclass(slots=True)
class Trials:
    """The same questions for the same method, with one knob turned; one question after the other."""

    method: Method
    knob: str
    models: Mapping[Role, Model]
    retriever: Retriever | None
    questions: Sequence[Question]
    seed: int = 0
    progress: Progress = lambda trial, value, done, searches: None

    async def run(self, number: int, value: float) -> tuple[Trial, tuple[Failure, ...]]:
        """Answer every question with the knob at `value`; a failure is noted, and the others go on."""
        turned: dict[str, Any] = {self.knob: value}
        method = replace(self.method, **turned)  # type: ignore[type-var]
        usages: list[Usage | None] = []
        decisions: list[tuple[float, ...]] = []
        failures: list[Failure] = []
        for done, question in enumerate(self.questions):
            self.progress(number, value, done, None)
            trace = Trace()
            try:
                result = await ask(question, method, self.models, self.retriever, seed=self.seed, trace=trace)
                usages.append(result.usage)
            except AskanceError as error:
                usages.append(None)
                failures.append(Failure(question.id, value, str(error)))
            decisions += _numbers(trace, value)
        counts = [usage.searches for usage in usages if usage is not None]
        self.progress(number, value, len(self.questions), fmean(counts) if counts else None)
        return Trial(value, tuple(usages), tuple(decisions)), tuple(failures)


def _numbers(trace: Trace, value: float) -> list[tuple[float, ...]]:
    held = [decision for decision in trace.decisions if decision.threshold == value]
    return [tuple(word.value for word in decision.words) for decision in held]
