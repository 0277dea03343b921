"""Scoring: the metrics and the reading by which the answers of a run are scored."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from askance.core.answers import Answer
from askance.core.trace import AnyEvent
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import NO_ANSWER
from askance.evaluation.metrics import Metric
from askance.evaluation.run.readings import AnswerReading


@dataclass(frozen=True, slots=True)
class Scoring:
    """Metrics that are ready to score answers.

    Attributes:
        metrics: The metrics by the names under which their scores are stored, such as "supporting_recall@5".
        reading: The rules by which short answers are extracted before they are scored.
    """

    metrics: Mapping[str, Metric]
    reading: AnswerReading = AnswerReading()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the metrics."""
        return tuple(self.metrics)

    def scores(
        self, example: Example, answer: Answer | None, events: Iterable[AnyEvent]
    ) -> dict[str, float | None]:
        """Return the scores of a question by the names of the metrics.

        A score is None if the metric does not apply to the question.

        Args:
            answer: The answer, or None if the question failed. After a failure, every score that applies is
                0.
            events: The events of the trace. An iterator is enough, because the events are read only once.
        """
        if answer is None:
            of_empty = self.scores(example, Answer(""), ())
            return {name: None if score is None else 0.0 for name, score in of_empty.items()}
        kept = tuple(events)
        return {name: metric.score(example, answer, kept) for name, metric in self.metrics.items()}

    def judge(self, example: Example, answer: Answer | None, events: Sequence[AnyEvent]) -> dict[str, Any]:
        """Return the fields of a question's record that depend on the answer and the scoring.

        The short answer is the one that `reading` extracts. An abstained answer is scored as `NO_ANSWER`.

        Args:
            answer: The answer, or None if the question failed.
        """
        read = None if answer is None else self.reading.read(answer, example.question, events)
        given, if_answered = read, dict[str, float | None]()
        if read is not None and read.abstained:
            given = Answer(NO_ANSWER, NO_ANSWER)
            if_answered = self.scores(example, read, events)
        return {
            "text": "" if read is None else read.text,
            "short": "" if given is None else given.short,
            "scores": self.scores(example, given, events),
            "reading": self.reading.name,
            "confidence": None if read is None else read.confidence,
            "abstained": "" if read is None else read.abstained,
            "source": "" if read is None else read.source,
            "scores_if_answered": if_answered,
        }
