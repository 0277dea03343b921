"""How an evaluation stands: means that are kept while it runs, in memory that does not grow with it."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from askance.eval.record import Record

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
class Standing:
    """The numbers of a run so far.

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
    def of(cls, num_questions: int, metrics: Iterable[str], finished: Iterable[Record]) -> "Standing":
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
