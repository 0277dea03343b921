"""The metrics of the server, in Prometheus' format."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from askance.core.answers import Usage
from askance.serve.limits import Admission

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """The metrics of one server.

    Args:
        admission: The questions that run and wait.

    Attributes:
        requests: The number of requests by route, method and status. The route is a template such as
            ``/v1/traces/{id}``, and the method of an unknown name is "other", so that the number of series
            stays small.
        questions: The number of questions by askance's method and outcome.
        first_text_seconds: The time until the first text of a streamed answer.
    """

    def __init__(self, admission: Admission) -> None:
        self._collectors = CollectorRegistry()
        counter = partial(Counter, registry=self._collectors)
        histogram = partial(Histogram, registry=self._collectors, buckets=_SECONDS)
        self.requests = counter("askance_requests", "Requests.", ("route", "method", "status"))
        self.questions = counter("askance_questions", "Questions.", ("method", "outcome"))
        self._tokens = counter("askance_tokens", "Tokens of all models.", ("kind",))
        self._searches = counter("askance_searches", "Searches for questions.")
        self.seconds = histogram("askance_question_seconds", "Duration of questions.")
        self.first_text_seconds = histogram(
            "askance_first_text_seconds", "Time until the first text of a streamed answer."
        )
        for name in ("running", "waiting"):
            gauge = Gauge(f"askance_questions_{name}", f"Questions {name}.", registry=self._collectors)
            gauge.set_function(partial(getattr, admission, name))

    def count(self, method: str, outcome: str, usage: Usage) -> None:
        """Count a question that has ended, with its cost."""
        self.questions.labels(method, outcome).inc()
        self._searches.inc(usage.searches)
        self.seconds.observe(usage.seconds)
        for kind in ("prompt", "reused", "generated"):
            self._tokens.labels(kind).inc(getattr(usage, f"{kind}_tokens"))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._collectors)
