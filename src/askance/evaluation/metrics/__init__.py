"""Metrics: the one table of them, and how answers are scored by name.

    scoring = open_metrics(["exact_match", "f1:airrag", "supporting_recall@5"])
    scores = scoring.scores(example, result.answer, result.trace.events)

Each gives a number per question, or None where it does not apply to the question; a mean is taken over the
questions it applies to. Whether it applies depends on what is known about the question alone, so that every
method is measured on the same ones. `prices` says what the answers cost.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from askance.core.errors import InputError, MissingExtra, UnknownName
from askance.core.extensions import find_extension, known_names
from askance.core.trace import AnyEvent
from askance.core.types import Answer
from askance.evaluation.datasets import Example
from askance.evaluation.metrics import answers, evidence
from askance.evaluation.run.readings import AnswerReading

Reads = Literal["short answer", "text", "citations", "trace"]
Score = Callable[[Example, Answer, Sequence[AnyEvent]], float | None]
_WORD_FORMS = ("dragin", "airrag")


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table.

    Attributes:
        function: takes what is read, then the golds, or the example.
        reads: what is judged; all but the trace belongs to the answer.
        normalisations: those that may be named after a colon; the first is the default.
        takes_example: whether it is the example, rather than its golds.
        counts_passages: whether "@K" may be named, the number of passages to look at.
        package: what must be installed for it, by the name it is imported by; empty for nothing more.
        extra: of askance, which brings the package.
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
        """That of its function."""
        return self.function.__name__

    @property
    def spec(self) -> str:
        """How it is named, with the parameter that it may take."""
        others = self.normalisations[1:]
        return self.name + (f"[:{'|'.join(others)}]" if others else "[@K]" if self.counts_passages else "")

    def judged(self, answer: Answer, events: Sequence[AnyEvent]) -> Any:
        """What it reads of an answered question."""
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
    Metric(evidence.citation_precision, "citations", takes_example=True),
    Metric(evidence.citation_recall, "citations", takes_example=True),
    Metric(evidence.supporting_recall, "trace", takes_example=True, counts_passages=True),
)
METRICS: Mapping[str, Metric] = {each.name: each for each in _ROWS}
DEFAULT_METRICS = (
    "exact_match", "f1", "precision", "recall", "accuracy", "match", "yes_no_accuracy",
    "choice_accuracy", "str_em", "supporting_recall", "citation_precision", "citation_recall",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scoring:
    """Metrics, ready to be used; `names` as they were given, and how the answers they judge are read."""

    names: tuple[str, ...]
    _scores: tuple[Score, ...] = field(repr=False)
    reading: AnswerReading = AnswerReading()

    def scores(
        self, example: Example, answer: Answer | None, events: Iterable[AnyEvent]
    ) -> dict[str, float | None]:
        """Every metric of one question, by name; None where it does not apply to the question.

        Args:
            answer: None where the question failed: all that applies is then 0, whatever was found before.
            events: of the trace, in memory or from a file; read once.
        """
        if answer is None:
            would_be = self.scores(example, Answer(""), ())
            return {name: None if score is None else 0.0 for name, score in would_be.items()}
        kept = tuple(events)
        return {
            name: score(example, answer, kept) for name, score in zip(self.names, self._scores, strict=True)
        }

    def judge(
        self, example: Example, answer: Answer | None, events: Sequence[AnyEvent]
    ) -> tuple[Answer, dict[str, float | None]]:
        """The answer as it is read here, an empty one where the question failed, and its `scores`."""
        read = None if answer is None else self.reading.read(answer, events)
        return read or Answer(""), self.scores(example, read, events)


def open_metrics(names: Sequence[str] = DEFAULT_METRICS, reading: AnswerReading = AnswerReading()) -> Scoring:
    """The metrics of these names, checked before anything runs.

    A parameter follows the name: ``f1:airrag`` names a normalisation, ``supporting_recall@5`` a number.

    Raises:
        UnknownName: no such metric or normalisation.
        InputError: no name, a parameter that the metric does not take, or a metric twice.
        MissingExtra: a package is not installed; names the pip line.
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
    """The metric, and its parameter by the name that its function has for it; defaults are filled in."""
    stem, mark, parameter = (*re.split("([:@])", name, maxsplit=1), "", "")[:3]
    metric = METRICS.get(stem) or _extension(stem)
    if metric is None:
        of_module = _extension(name)
        if of_module is None:
            known = known_names("metrics", METRICS)
            raise UnknownName("metric", stem, known, place="" if stem == name else f"in {name!r}")
        return of_module, {}
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
    """The metric of a plug-in or of ``module:function``: a row, or a function of short answer and golds."""
    found = find_extension("metrics", name)
    if found is None or isinstance(found, Metric):
        return found
    if not callable(found):
        raise InputError(f"the metric {name} is no function ({found!r}): it takes an answer and the golds.")
    return Metric(found, "short answer")
