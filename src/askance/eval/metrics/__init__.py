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
from askance.eval.datasets import Example
from askance.eval.metrics import answers, evidence
from askance.eval.readings import Reading

Reads = Literal["short answer", "text", "citations", "trace"]
Score = Callable[[Example, Answer, Sequence[AnyEvent]], float | None]
_WORD_FORMS = ("dragin", "airrag")


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table.

    Attributes:
        function: takes what is read, then the golds, or the example.
        what: in one line.
        reads: what is judged; all but the trace belongs to the answer.
        normalisations: those that may be named after a colon; the first is the default.
        counts_passages: whether "@K" may be named, the number of passages to look at.
        takes_example: whether it is the example, rather than its golds.
        package: what must be installed for it, by the name it is imported by; empty for nothing more.
        extra: of askance, which brings the package.
    """

    name: str
    function: Callable[..., float | None]
    what: str
    reads: Reads
    normalisations: tuple[str, ...] = ()
    counts_passages: bool = False
    takes_example: bool = False
    package: str = ""
    extra: str = ""

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
    Metric(
        "exact_match",
        answers.exact_match,
        "whether the answer is an accepted one",
        "short answer",
        normalisations=(*_WORD_FORMS, "selfrag"),
    ),
    Metric(
        "f1",
        answers.f1,
        "harmonic mean of precision and recall over words, as multisets",
        "short answer",
        normalisations=_WORD_FORMS,
    ),
    Metric(
        "precision",
        answers.precision,
        "share of the answer's words that are in an accepted one",
        "short answer",
        normalisations=_WORD_FORMS,
    ),
    Metric(
        "recall",
        answers.recall,
        "share of an accepted answer's words that are in the answer",
        "short answer",
        normalisations=_WORD_FORMS,
    ),
    Metric(
        "accuracy", answers.accuracy, "whether an accepted answer is part of the short answer", "short answer"
    ),
    Metric(
        "yes_no_accuracy",
        answers.yes_no_accuracy,
        "whether yes or no is right; other questions don't count",
        "short answer",
    ),
    Metric(
        "choice_accuracy",
        answers.choice_accuracy,
        "whether the option named first is the right one; questions without options don't count",
        "short answer",
        takes_example=True,
    ),
    Metric(
        "match",
        answers.match,
        "whether an accepted answer occurs in the text, letter by letter",
        "text",
        normalisations=("raw", "normalised"),
    ),
    Metric(
        "rouge_l",
        answers.rouge_l,
        "longest common subsequence of words, as an F-measure",
        "text",
        package="rouge_score",
        extra="eval",
    ),
    Metric(
        "rouge_lsum",
        answers.rouge_lsum,
        "the same sentence by sentence, with stemming",
        "text",
        package="rouge_score",
        extra="eval",
    ),
    Metric(
        "str_em",
        answers.str_em,
        "share of the things that a long answer has to tell which occur in it",
        "text",
        takes_example=True,
    ),
    Metric(
        "citation_precision",
        evidence.citation_precision,
        "share of the cited passages whose title is a supporting one",
        "citations",
        takes_example=True,
    ),
    Metric(
        "citation_recall",
        evidence.citation_recall,
        "share of the supporting titles that are cited",
        "citations",
        takes_example=True,
    ),
    Metric(
        "supporting_recall",
        evidence.supporting_recall,
        "share of the supporting titles among all passages found, or the first K different ones",
        "trace",
        counts_passages=True,
        takes_example=True,
    ),
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
    reading: Reading = Reading()

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


def open_metrics(names: Sequence[str] = DEFAULT_METRICS, reading: Reading = Reading()) -> Scoring:
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
        key = (metric.name, *parameters.values())
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
    metric = METRICS.get(stem) or _extension(stem) or _extension(name)
    if metric is None:
        known = known_names("metrics", METRICS)
        raise UnknownName("metric", stem, known, place="" if stem == name else f"in {name!r}")
    if mark == ":" and metric.normalisations:
        if parameter not in metric.normalisations:
            raise UnknownName("normalisation", parameter, metric.normalisations, place=f"in metric {name!r}")
        return metric, {"normalisation": parameter}
    if mark == "@" and metric.counts_passages:
        if not re.fullmatch("[1-9][0-9]*", parameter):
            raise InputError(f"metric {name!r}: {parameter!r} is no number of passages; write {stem}@5.")
        return metric, {"first": int(parameter)}
    if mark and metric.name != name:
        raise InputError(f"metric {name!r}: {stem} takes no {mark + parameter!r}; write {metric.spec}.")
    return metric, {"normalisation": metric.normalisations[0]} if metric.normalisations else {}


def _extension(name: str) -> Metric | None:
    """The metric of a plug-in or of ``module:function``: a row, or a function of short answer and golds."""
    found = find_extension("metrics", name)
    if found is None or isinstance(found, Metric):
        return found
    if not callable(found):
        raise InputError(f"the metric {name} is no function ({found!r}): it takes an answer and the golds.")
    return Metric(name, found, "of a plug-in", "short answer")
