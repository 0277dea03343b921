"""Try one value of a parameter: let the method answer all questions with it, and measure the answers."""

import math
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.ask import Engine, Result
from askance.core.concurrency import map_concurrent
from askance.core.errors import LASTING, AskanceError, InputError
from askance.core.parameters import SearchParameter
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.scoring import Scoring

Numbers = NDArray[np.float64]
Interval = tuple[float, float]
OnProgress = Callable[[int, float, int, float | None], None]
"""A callback for the progress of a trial. It takes the number of the trial, the value, the number of
questions done, and the mean number of searches. The mean is None until all questions are done, and stays None
if all of them failed."""
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class TrialFailure:
    """A question that could not be answered with one value of the parameter."""

    question_id: str
    value: float
    error: str


@dataclass(frozen=True, slots=True)
class Trial:
    """The measurements of the answers with one value of the parameter, a number for each question.

    Attributes:
        searches, tokens: The cost of each question; not a number if the question failed. Tokens are prompt
            tokens and generated tokens. Cached tokens count too, because a value that is tried later finds
            more prompt prefixes in the cache.
        scores: The score of each question; not a number if it failed or the metric does not apply to it.
        deciding: For each decision, the number whose comparison with the value decided.
    """

    value: float
    searches: Numbers
    tokens: Numbers
    scores: Numbers
    deciding: tuple[float, ...]

    @property
    def mean_searches(self) -> float:
        """The mean number of searches of the questions that did not fail."""
        return float(np.nanmean(self.searches))


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
        scoring: The one metric to score answers by, if they are scored.
        completed: The trials so far, in their order.
        failures: The failures of all trials.
    """

    engine: Engine
    parameter: SearchParameter
    bounds: tuple[float, float]
    examples: Sequence[Example]
    scoring: Scoring | None = None
    in_flight: int = 1
    on_progress: OnProgress = lambda trial, value, done, searches: None
    completed: list[Trial] = field(default_factory=list, init=False)
    failures: list[TrialFailure] = field(default_factory=list, init=False)

    async def run(self, value: float) -> None:
        """Answer every question with the parameter at `value`, and keep the trial and its failures.

        A failed question does not stop the other questions.
        """
        method: Any = self.engine.method
        engine = replace(self.engine, method=replace(method, **{self.parameter.name: value}))
        number, results = len(self.completed) + 1, dict[str, Result]()
        questions, done, errors = [example.question for example in self.examples], 0, dict[str, str]()
        self.on_progress(number, value, done, None)
        async with aclosing(map_concurrent(questions, engine.answer, self.in_flight)) as finishing:
            async for outcomes in finishing:
                for each in outcomes:
                    if isinstance(each.error, AskanceError) and not isinstance(each.error, LASTING):
                        errors[each.item.id] = str(each.error)
                    elif each.error is not None:
                        raise each.error
                    elif each.result is not None:
                        results[each.item.id] = each.result
                done += len(outcomes)
                if done < len(questions):
                    self.on_progress(number, value, done, None)
        self.failures += (
            TrialFailure(each.id, value, errors[each.id]) for each in questions if each.id in errors
        )
        trial = self._trial(value, results)
        self.completed.append(trial)
        self.on_progress(number, value, done, trial.mean_searches if results else None)

    def _trial(self, value: float, results: dict[str, Result]) -> Trial:
        rows, decided, decisive = [], list[float](), min if self.parameter.rises else max
        for example in self.examples:
            result = results.get(example.question.id)
            if result is None:
                rows.append((math.nan, math.nan, math.nan))
                continue
            usage, score = result.usage, None
            if self.scoring is not None:
                (score,) = self.scoring.judge(example, result.answer, result.trace.events)["scores"].values()
            tokens = usage.prompt_tokens + usage.generated_tokens
            rows.append((usage.searches, tokens, math.nan if score is None else score))
            decisions = (each for each in result.trace.decisions if each.threshold == value)
            decided += (decisive(word.value for word in each.words) for each in decisions if each.words)
        searches, tokens, scores = np.array(rows, dtype=np.float64).T
        return Trial(value, searches, tokens, scores, tuple(decided))

    def comparable(self) -> list[Trial]:
        """Return the trials with ascending values, over the questions that count in all of them.

        A question that failed in one trial counts in none, so that all means cover the same questions. If
        answers are scored, a question must also have a score.

        Raises:
            AskanceError: Every question failed.
            InputError: The metric applies to none of the questions.
        """
        counted = ~np.isnan([trial.searches for trial in self.completed]).any(axis=0)
        if not counted.any():
            first = self.failures[0]
            raise AskanceError(
                f"no question was answered with every value tried; the first failure, {first.question_id}: "
                f"{first.error}"
            )
        if self.scoring is not None:
            counted &= ~np.isnan(self.completed[0].scores)
            if not counted.any():
                (metric,) = self.scoring.names
                raise InputError(f"metric {metric!r} applies to none of the questions: choose another one.")
        return [
            Trial(
                trial.value,
                trial.searches[counted],
                trial.tokens[counted],
                trial.scores[counted],
                trial.deciding,
            )
            for trial in sorted(self.completed, key=lambda trial: trial.value)
        ]


def resampled_means(numbers: Numbers, seed: int) -> Numbers:
    """Return bootstrap means over questions, with the same questions drawn for every value of the parameter.

    Args:
        numbers: A number for each value and question: shape [values, questions].

    Returns:
        The means of each resample: shape [values, resamples].
    """
    random = np.random.Generator(np.random.Philox(seed % 2**64))
    drawn = random.integers(numbers.shape[1], size=(_RESAMPLES, numbers.shape[1]))
    means: Numbers = numbers[:, drawn].mean(axis=2)
    return means
