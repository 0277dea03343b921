"""Metrics: the table of all metrics, and the functions that score answers by the metrics that a user names.

    scoring = open_metrics(["exact_match", "f1:airrag", "supporting_recall@5"])
    scores = scoring.scores(example, result.answer, result.trace.events)

A metric returns a number for each question, or None if the metric does not apply to the question. Means are
taken over the questions that the metric applies to. Whether a metric applies depends only on the question and
the gold answers, so every method is measured on the same questions. The module `prices` computes the cost of
answers.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from askance.core.answers import Answer
from askance.core.errors import InputError, MissingExtra, UnknownName
from askance.core.extensions import find_extension, known_names
from askance.core.trace import AnyEvent
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.single_hop import NO_ANSWER
from askance.evaluation.metrics import answers
from askance.evaluation.run.readings import AnswerReading

Reads = Literal["short answer", "text", "citations", "trace"]
Score = Callable[[Example, Answer, Sequence[AnyEvent]], float | None]
_WORD_FORMS = ("dragin", "airrag")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, as the table of metrics describes it.

    Attributes:
        function: The function that computes the metric. Its arguments are the input that `reads` names, and
            then the gold answers or the whole example.
        reads: The input that is scored: a part of the answer, or the trace.
        normalisations: The normalisations that may follow the name after a colon; the first is the default.
        takes_example: Whether the function takes the example instead of its gold answers.
        counts_passages: Whether "@K" may follow the name, where K is the number of passages to consider.
        package: The import name of a package that the metric needs; empty if it needs none.
        extra: The extra of askance that installs the package.
    """

    function: Callable[..., float | None]
    reads: Reads
    normalisations: tuple[str, ...] = ()
    takes_example: bool = False
    counts_passages: bool = False
    package: str = ""
    extra: str = ""

    @property
    def name(self) -> str:
        """The name of the metric, which is the name of its function."""
        return self.function.__name__

    @property
    def spec(self) -> str:
        """The name and the parameter that may follow it, such as ``NAME[@K]``."""
        others = self.normalisations[1:]
        return self.name + (f"[:{'|'.join(others)}]" if others else "[@K]" if self.counts_passages else "")

    def judged(self, answer: Answer, events: Sequence[AnyEvent]) -> Any:
        """Return the input of the metric: the part of the answer that `reads` names, or the trace."""
        if self.reads == "trace":
            return events
        return {"short answer": answer.short, "text": answer.text, "citations": answer.citations}[self.reads]


_ROWS = (
    Metric(answers.exact_match, "short answer", (*_WORD_FORMS, "selfrag")),
    Metric(answers.f1, "short answer", _WORD_FORMS),
    Metric(answers.precision, "short answer", _WORD_FORMS),
    Metric(answers.recall, "short answer", _WORD_FORMS),
    Metric(answers.accuracy, "short answer"),
    Metric(answers.yes_no_accuracy, "short answer"),
    Metric(answers.choice_accuracy, "short answer", takes_example=True),
    Metric(answers.match, "text", ("raw", "normalised")),
    Metric(answers.rouge_l, "text", package="rouge_score", extra="eval"),
    Metric(answers.rouge_lsum, "text", package="rouge_score", extra="eval"),
    Metric(answers.str_em, "text", takes_example=True),
    Metric(answers.citation_precision, "citations", takes_example=True),
    Metric(answers.citation_recall, "citations", takes_example=True),
    Metric(answers.supporting_recall, "trace", takes_example=True, counts_passages=True),
)
METRICS: Mapping[str, Metric] = {each.name: each for each in _ROWS}
DEFAULT_METRICS = (
    "exact_match", "f1", "precision", "recall", "accuracy", "match", "yes_no_accuracy",
    "choice_accuracy", "str_em", "supporting_recall", "citation_precision", "citation_recall",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scoring:
    """Metrics that are ready to score answers.

    Attributes:
        reading: The rules by which short answers are extracted before they are scored.
    """

    names: tuple[str, ...]
    _scores: tuple[Score, ...] = field(repr=False)
    reading: AnswerReading = AnswerReading()

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
        return {
            name: score(example, answer, kept) for name, score in zip(self.names, self._scores, strict=True)
        }

    def judge(self, example: Example, answer: Answer | None, events: Sequence[AnyEvent]) -> dict[str, Any]:
        """Return the fields of a question's record that depend on the answer and the scoring.

        The short answer is the one that `reading` extracts. An abstained answer is scored as `NO_ANSWER`.

        Args:
            answer: The answer, or None if the question failed.
        """
        read = None if answer is None else self.reading.read(answer, events)
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
            "scores_if_answered": if_answered,
        }


def open_metrics(names: Sequence[str] = DEFAULT_METRICS, reading: AnswerReading = AnswerReading()) -> Scoring:
    """Return the metrics with these names, ready to score answers.

    All names are checked here, so that a wrong name is reported before any question is asked. A parameter may
    follow a name: ``f1:airrag`` sets the normalisation, and ``supporting_recall@5`` the number of passages.

    Raises:
        UnknownName: There is no such metric or normalisation.
        InputError: No metric is named, a metric does not take the parameter, or a metric is named twice.
        MissingExtra: A package is not installed; the message gives the pip command.
    """
    if not names:
        raise InputError(f"no metric is named: name one or more, such as {DEFAULT_METRICS[0]}.")
    named: dict[tuple[Any, ...], str] = {}
    scores = []
    for name in names:
        metric, parameters = _read(name)
        if metric.package and find_spec(metric.package) is None:
            raise MissingExtra(metric.package, metric.extra, f"metric {name!r}")
        key = (metric.function, *parameters.values())
        if key in named:
            raise InputError(f"metric {name!r} is named twice, first as {named[key]!r}: leave one out.")
        named[key] = name
        scores.append(_scorer(metric, parameters))
    return Scoring(tuple(names), tuple(scores), reading)


def _scorer(metric: Metric, parameters: Mapping[str, Any]) -> Score:
    def score(example: Example, answer: Answer, events: Sequence[AnyEvent]) -> float | None:
        if not metric.takes_example and not example.golds:
            return None
        against = example if metric.takes_example else example.golds
        return metric.function(metric.judged(answer, events), against, **parameters)

    return score


def _read(name: str) -> tuple[Metric, dict[str, Any]]:
    """Return the metric with this name, and the keyword arguments of its function, including defaults."""
    stem, mark, parameter = (*re.split("([:@])", name, maxsplit=1), "", "")[:3]
    metric = METRICS.get(stem) or _extension(stem)
    if metric is None:
        extension = _extension(name)
        if extension is None:
            known = known_names("metrics", METRICS)
            raise UnknownName("metric", stem, known, place="" if stem == name else f"in {name!r}")
        return extension, {}
    if mark == ":" and metric.normalisations:
        if parameter not in metric.normalisations:
            raise UnknownName("normalisation", parameter, metric.normalisations, place=f"in metric {name!r}")
        return metric, {"normalisation": parameter}
    if mark == "@" and metric.counts_passages:
        if not re.fullmatch("[1-9][0-9]*", parameter):
            raise InputError(f"metric {name!r}: {parameter!r} is no number of passages; write {stem}@5.")
        return metric, {"first": int(parameter)}
    if mark:
        raise InputError(f"metric {name!r}: {stem} takes no {mark + parameter!r}; write {metric.spec}.")
    return metric, {"normalisation": metric.normalisations[0]} if metric.normalisations else {}


def _extension(name: str) -> Metric | None:
    """Return the metric that a plug-in or ``module:function`` defines, or None if there is no such plug-in.

    The plug-in is a `Metric`, or a function that takes the short answer and the gold answers.
    """
    extension = find_extension("metrics", name)
    found = None if extension is None else extension.target
    if extension is None or isinstance(found, Metric):
        return found
    if not callable(found):
        raise InputError(f"the metric {name} is no function ({found!r}): it takes an answer and the golds.")
    extension.check_declared((Metric,), f"the metric {name}")
    return Metric(found, "short answer")
