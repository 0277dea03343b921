"""A budget of searches: the server moves a method's threshold to keep the mean number of searches."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from askance.ask import Engine
from askance.core.errors import InputError
from askance.core.parameters import SearchParameter, name_of
from askance.core.ports import Method
from askance.core.trace import Searched, Trace
from askance.evaluation.choose.calibrate import firing_ends
from askance.evaluation.choose.trials import decisive_scores

_WINDOW, _LEAST = 100, 10
"""The number of questions that are remembered, and the least number by which the threshold is moved."""
_REPAID = 10
"""The number of questions over which too many or too few searches are made up for."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """One question: its number of searches, how many of them a score decided, and the scores.

    The scores are those of sentences. Each is greater the more a search is worth.
    """

    searches: int
    decided: int
    scores: tuple[float, ...]


class SearchBudget:
    """Keeps the mean number of searches of a question near a budget, by quantiles over the last questions.

    The threshold for the next question is a quantile of the scores that the last 100 questions had: as many
    are above it as the budget allows searches. What these questions searched too much or too little is made
    up for over the next ten. The first ten questions have the method's own threshold. Questions that failed
    count with the searches that they made.

    Args:
        searches: The mean number of searches of a question.

    Raises:
        InputError: The method has no threshold.
    """

    def __init__(self, searches: float, method: Any) -> None:
        parameter = type(method).calibrated
        if parameter is None:
            lacks = f"the method {name_of(type(method))} has no threshold that decides how often it searches"
            raise InputError(f"--searches-per-question {searches:g}: {lacks}; use dragin or flare.")
        self._parameter: SearchParameter = parameter
        self._searches, self._seen = searches, deque[_Seen](maxlen=_WINDOW)
        self._sign = -1 if parameter.rises else 1
        self._always, self._never = firing_ends(type(method))

    def fits(self, parameters: Collection[str]) -> bool:
        """Return whether a request with these parameters has the threshold of all others, on its scale."""
        return {self._parameter.name, *self._parameter.belongs_to}.isdisjoint(parameters)

    def applied(self, engine: Engine) -> Engine:
        """Return an engine with the threshold for the next question, which it reports when it has ended."""
        threshold = self.threshold
        changed = {} if threshold is None else {self._parameter.name: threshold}
        method = replace(engine.method, **changed)  # type: ignore[type-var]

        def ended(trace: Trace) -> None:
            if (seen := self._read(trace, method)).scores or seen.searches:  # small talk is not
                self._seen.append(seen)
            if engine.on_end is not None:
                engine.on_end(trace)

        return replace(engine, method=method, on_end=ended)

    @property
    def threshold(self) -> float | None:
        """The threshold for the next question; None for the method's own."""
        if len(self._seen) < _LEAST:
            return None
        num = len(self._seen)
        spent = sum(each.searches for each in self._seen)
        fixed = spent - sum(each.decided for each in self._seen)
        allowed = self._searches - fixed / num + (self._searches * num - spent) / _REPAID
        scores = sorted((score for each in self._seen for score in each.scores), reverse=True)
        at = max(0, round(allowed * num))
        if at >= len(scores):
            return self._always
        low, high = sorted((self._always, self._never))
        between = (scores[max(at - 1, 0)] + scores[at]) / 2
        return min(max(self._sign * between, low), high)

    def _read(self, trace: Trace, method: Method) -> _Seen:
        scores = decisive_scores(trace, self._parameter, self._parameter.value_of(method))
        searches = sum(isinstance(event, Searched) for event in trace.events)
        decided = sum(each.outcome == "search" for each in trace.decisions if each.threshold is not None)
        return _Seen(searches, decided, tuple(self._sign * each for each in scores))
