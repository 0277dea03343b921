"""Trials of values of one parameter: a method answers all questions with each, and the records are kept."""

import math
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from askance.ask import Engine
from askance.core.errors import AskanceError, InputError
from askance.core.parameters import SearchParameter
from askance.core.trace import Trace
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.run.executor import answer_all, ask_engine
from askance.evaluation.run.record import Record
from askance.evaluation.statistics.compare import Numbers

Interval = tuple[float, float]
OnProgress = Callable[[int, float, int, float | None], None]
"""A callback for the progress of a trial. It takes the number of the trial, the value, the number of
questions done, and the mean number of searches. The mean is None until all questions are done, and stays None
if all of them failed."""


def decisive_scores(trace: Trace, parameter: SearchParameter, value: float | None) -> tuple[float, ...]:
    """Return, for each sentence whose scores were compared with `value`, the score nearest to a search."""
    nearest = min if parameter.rises else max
    compared = (each for each in trace.decisions if each.words and each.threshold == value)
    scores = (nearest(word.value for word in each.words) for each in compared)
    return tuple(filter(math.isfinite, scores))


@dataclass(frozen=True, slots=True)
class Trial:
    """The answers with one value of the parameter.

    Attributes:
        records: The records of the questions, in their order.
        decisive: For each question, the number of each decision whose comparison with the value decided.
    """

    value: float
    records: tuple[Record, ...]
    decisive: tuple[tuple[float, ...], ...]

    @property
    def deciding(self) -> tuple[float, ...]:
        """The decisive numbers of all questions."""
        return tuple(number for numbers in self.decisive for number in numbers)

    @property
    def searches(self) -> Numbers:
        """The number of searches of each question."""
        return np.array([each.usage.searches for each in self.records], dtype=np.float64)

    @property
    def tokens(self) -> Numbers:
        """The prompt tokens and generated tokens of each question.

        Cached tokens count, too, because a value that is tried later finds more prompt prefixes in the cache.
        """
        usages = [each.usage for each in self.records]
        return np.array([each.prompt_tokens + each.generated_tokens for each in usages], dtype=np.float64)

    @property
    def scores(self) -> Numbers:
        """The score of each question by the only metric."""
        return np.array([next(iter(each.scores.values())) for each in self.records], dtype=np.float64)

    @property
    def mean_searches(self) -> float:
        """The mean number of searches."""
        return float(self.searches.mean())


@dataclass(frozen=True, slots=True)
class Choice:
    """The value that a goal chose, with its 95 % interval, or none of them and the reason in `remark`."""

    value: float | None
    interval: Interval | None
    remark: str


@dataclass(slots=True)
class Trials:
    """Trials of several values of one parameter, with the same engine and the same questions.

    Attributes:
        bounds: The range of the parameter, whose ends may be infinite.
        completed: The trials so far, in their order.
    """

    engine: Engine
    parameter: SearchParameter
    bounds: tuple[float, float]
    examples: Sequence[Example]
    scoring: Scoring | None
    completed: list[Trial] = field(default_factory=list, init=False)

    async def run(self, value: float, in_flight: int, on_progress: OnProgress) -> None:
        """Answer every question with the parameter at `value`, and keep the trial."""
        method: Any = self.engine.method
        engine = replace(self.engine, method=replace(method, **{self.parameter.name: value}))
        number, finished = len(self.completed) + 1, list[tuple[Record, Trace]]()
        questions = dict(enumerate(self.examples, start=1))
        on_progress(number, value, 0, None)
        ask = partial(ask_engine, engine)
        async with aclosing(answer_all(ask, questions, self.scoring or Scoring({}), in_flight)) as batches:
            async for batch in batches:
                finished += batch
                if len(finished) < len(questions):
                    on_progress(number, value, len(finished), None)
        finished.sort(key=lambda each: each[0].number)
        decisive = tuple(
            () if record.is_failure else decisive_scores(trace, self.parameter, value)
            for record, trace in finished
        )
        records = tuple(record for record, _ in finished)
        self.completed.append(Trial(value, records, decisive))
        searches = [record.usage.searches for record in records if not record.is_failure]
        on_progress(number, value, len(records), float(np.mean(searches)) if searches else None)

    def failures(self) -> list[tuple[float, Record]]:
        """Return the failed questions, each after the value that was tried."""
        return [(trial.value, each) for trial in self.completed for each in trial.records if each.is_failure]

    def comparable(self) -> list[Trial]:
        """Return the trials with ascending values, over the questions that count in all of them.

        A question that failed in one trial counts in none, so that all means cover the same questions. If
        answers are scored, a question must also have a score.

        Raises:
            AskanceError: Every question failed.
            InputError: The metric applies to none of the questions.
        """
        failures = self.failures()
        failed = {record.number for _, record in failures}
        if len(failed) == len(self.examples):
            _, first = failures[0]
            why = f"the first failure, {first.id}: {first.error}"
            raise AskanceError(f"no question was answered with every value tried; {why}")

        def counts(record: Record) -> bool:
            return record.number not in failed and None not in record.scores.values()

        counted = [tuple(filter(counts, trial.records)) for trial in self.completed]
        if not counted[0]:
            (metric,) = self.completed[0].records[0].scores
            raise InputError(f"metric {metric!r} applies to none of the questions: choose another one.")
        trials = (replace(trial, records=kept) for trial, kept in zip(self.completed, counted, strict=True))
        return sorted(trials, key=lambda trial: trial.value)
