"""Find the value with which a method answers best, by a metric over questions with gold answers.

A score can rise and fall again as the threshold grows: too few searches miss what the model does not know,
and too many replace what it does know. So no curve is assumed. Each value that is tried divides the numbers
that decisions compared with the threshold, where the score promises most: the mean score of two values that
were tried, and `_GAIN` for each question that is searched for a different number of times at the two.

Methods can be compared at the same cost if the number of searches per question is limited: then only values
within the limit compete. If tokens have a price, the score less the cost of the tokens is compared: at the
best value, to spend more would gain less than it costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from operator import attrgetter
from statistics import fmean

import numpy as np

from askance.evaluation.calibration.trials import Choice, Numbers, Trial, Trials, resampled_means
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.statistics.compare import paired_difference, percentile_interval

_ROUNDING = 1e-12
_GAIN = 0.25
"""The gain that is hoped for from a question that a value between two others searches for differently."""
_MARGIN = 0.01
"""How far, relatively, the ends lie beyond the numbers that decided in the first trial."""


@dataclass(frozen=True, slots=True)
class ScoreGoal:
    """The best mean score. Of equal values, the one with the fewest searches is the best.

    The method's own value is tried first. Then come values at which none and all of its decisions would have
    been to search, and values between them.

    Attributes:
        scoring: The one metric to choose by.
        max_searches: The most searches per question, on average, that the value may have; None means any
            number. If every value that is tried has more, the one with the fewest is the result.
        price: The score that 1,000 tokens must gain, which is subtracted from the scores before they compete.
    """

    scoring: Scoring
    max_searches: float | None = None
    price: float = 0.0

    def __str__(self) -> str:
        price = f" less {self.price:g} per 1,000 tokens" if self.price else ""
        limit = self.max_searches
        most = "" if limit is None else f" with at most {limit:g} searches per question"
        return f"the best {self.scoring.names[0]}{price}{most}"

    def next_value(self, trials: Trials) -> float | None:
        """Return the value to try next, or None if no value could change a decision."""
        ordered, (low, high) = trials.comparable(), trials.bounds
        numbers = sorted({_rounded(each) for trial in trials.completed for each in trial.deciding})
        if not numbers:
            return None
        first = sorted(trials.completed[0].deciding) or numbers
        if ordered[-1].value < first[-1]:
            return min(high, _rounded(first[-1] + _MARGIN * abs(first[-1])))
        if ordered[0].value > first[0]:
            return max(low, _rounded(first[0] - _MARGIN * abs(first[0])))
        gaps = [
            (_promise(lower, upper), inside)
            for lower, upper in pairwise(ordered)
            # With fewer than two numbers in between, the two values decide as any value between them does.
            if len(inside := [number for number in numbers if lower.value < number < upper.value]) > 1
            and (self._allows(lower) or self._allows(upper))
        ]
        _, inside = max(gaps, key=lambda gap: gap[0], default=(0.0, []))
        return _rounded(fmean(inside[(len(inside) - 1) // 2 :][:2])) if inside else None

    def choose(self, trials: Trials) -> Choice:
        """Return the value tried with the best score; the interval has those that resamples choose."""
        ordered = trials.comparable()
        allowed = [*filter(self._allows, ordered)] or [min(ordered, key=attrgetter("mean_searches"))]
        nets = np.array([self._net_scores(trial) for trial in allowed])
        best = max(
            range(len(allowed)),
            key=lambda index: (round(fmean(nets[index]), 12), -allowed[index].mean_searches),
        )
        chosen = resampled_means(nets, trials.engine.seed).argmax(axis=0)
        interval = percentile_interval([allowed[index].value for index in chosen])
        return Choice(allowed[best].value, interval, self._remark(trials.parameter.name, allowed, best))

    def _allows(self, trial: Trial) -> bool:
        """Return whether a trial has no more searches per question than are allowed."""
        most = inf if self.max_searches is None else self.max_searches
        return trial.mean_searches <= most + _ROUNDING

    def _net_scores(self, trial: Trial) -> Numbers:
        """Return the score of each question, less the price of its tokens."""
        return trial.scores - self.price * trial.tokens / 1000

    def _remark(self, parameter: str, allowed: Sequence[Trial], best: int) -> str:
        """Return a remark if the best value is not better, beyond chance, than the least and greatest."""
        if not self._allows(allowed[best]):
            return (
                f"every value tried makes more than {self.max_searches:g} searches per question; this one "
                "makes the fewest. Some methods search before they write anything (search_first)."
            )
        nets = [
            dict(zip(map(str, range(len(net))), net, strict=True)) for net in map(self._net_scores, allowed)
        ]
        for end in {0, len(allowed) - 1} - {best}:
            difference = paired_difference(nets[best], nets[end])
            if difference.low <= _ROUNDING:
                return (
                    f"{parameter}={allowed[end].value:g} may be as good: the difference is "
                    f"{difference.mean:+.3f}, 95 % interval {difference.low:+.3f} to {difference.high:+.3f}. "
                    "More questions tell them apart."
                )
        return ""


def _promise(lower: Trial, upper: Trial) -> float:
    """Return the mean score that is hoped for from a value between those of two trials."""
    changed = float((lower.searches != upper.searches).mean())
    return float(np.mean([lower.scores, upper.scores])) + _GAIN * changed


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")
