"""What answering cost: one number a question, and what stands for the numbers of many questions."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from askance.core.errors import InputError
from askance.core.types import Usage


def _p95(values: Sequence[float]) -> float:
    return float(np.percentile(values, 95, method="linear"))


SUMMARIES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "p95": _p95,
}
"""Ways to sum up, by name; p95 is the 95th percentile, interpolated linearly between its neighbours."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One row of the table.

    Attributes:
        what: in one line.
        of: the cost of one question.
        summaries: names from `SUMMARIES`; time has no mean, which a single stall would decide.
    """

    what: str
    unit: str
    of: Callable[[Usage], float]
    summaries: tuple[str, ...] = ("mean",)

    def summary(self, usages: Sequence[Usage]) -> dict[str, float]:
        """The summaries over some questions, by name.

        Raises:
            InputError: no questions.
        """
        if not usages:
            raise InputError(
                "there are no questions to sum the costs of: name a dataset with at least one question."
            )
        values = [self.of(usage) for usage in usages]
        return {name: SUMMARIES[name](values) for name in self.summaries}


COSTS: Mapping[str, Cost] = {
    "searches": Cost("searches of the index", "searches", attrgetter("searches")),
    "tokens_prompt": Cost(
        "tokens of all prompts, cached ones included", "tokens", attrgetter("prompt_tokens")
    ),
    "tokens_reused": Cost("tokens of prompts that a cache had", "tokens", attrgetter("reused_tokens")),
    "tokens_generated": Cost("tokens generated, kept or not", "tokens", attrgetter("generated_tokens")),
    "tokens_computed": Cost(
        "tokens that went through a model: prompts less reused, and generated",
        "tokens",
        attrgetter("computed_tokens"),
    ),
    "seconds": Cost("time from question to answer", "s", attrgetter("seconds"), ("median", "p95")),
}
