"""Metrics, one file each, in two tables: of answers, and of the traces they came about by.

Each gives a number per question, or nothing where it does not apply to the question; a mean is taken over the
questions it applies to.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from askance.core.trace import AnyEvent
from askance.eval.datasets import Example
from askance.eval.metrics.exact_match import exact_match
from askance.eval.metrics.f1 import f1
from askance.eval.metrics.precision import precision
from askance.eval.metrics.recall import recall
from askance.eval.metrics.supporting_recall import supporting_recall
from askance.eval.metrics.yes_no_accuracy import yes_no_accuracy

AnswerMetric = Callable[[str, Sequence[str]], float | None]
"""Of a short answer and the accepted ones."""
TraceMetric = Callable[[Iterable[AnyEvent], Example], float | None]
"""Of the events of a trace, in memory or from a file, and what is known about the question."""

ANSWER_METRICS: Mapping[str, AnswerMetric] = {
    "exact_match": exact_match,
    "f1": f1,
    "precision": precision,
    "recall": recall,
    "yes_no_accuracy": yes_no_accuracy,
}
TRACE_METRICS: Mapping[str, TraceMetric] = {
    "supporting_recall": supporting_recall,
    "supporting_recall@5": partial(supporting_recall, first=5),
}
