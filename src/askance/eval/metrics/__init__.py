"""Metrics, one file each, and the one table of them, imported on use.

    scoring = open_metrics(["exact_match", "f1:airrag", "supporting_recall@5"])
    scores = scoring.scores(example, result.answer, result.trace.events)

Each gives a number per question, or None where it does not apply to the question; a mean is taken over the
questions it applies to. Whether it applies depends on what is known about the question alone, so that every
method is measured on the same ones. `costs` and `prices` say what the answers cost.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, Literal

from askance.core.errors import InputError, MissingExtra, UnknownName
from askance.core.extensions import find_extension, known_names
from askance.core.trace import AnyEvent
from askance.core.types import Answer
from askance.eval.datasets import Example
from askance.eval.readings import Reading

Reads = Literal["short answer", "text", "citations", "trace"]
Score = Callable[[Example, Answer, Sequence[AnyEvent]], float | None]


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table.

    Attributes:
        spec: how it is named, with the parameter that it may take: a normalisation, or how many passages.
        what: in one line.
        reads: what is judged; all but the trace belongs to the answer.
        normalisations: those that may be named after a colon; the first is the default.
        takes_example: whether it is the example, rather than its golds.
        package: what must be installed for it, by the name it is imported by; empty for nothing more.
        extra: of askance, which brings the package.
        module: where the function of its name is, if that is not a module of the same name, or
            ``module:function`` of a plug-in; the function takes what is read, then the golds, or the example.
    """

    spec: str
    what: str
    reads: Reads
    normalisations: tuple[str, ...] = ()
    takes_example: bool = False
    package: str = ""
    extra: str = ""
    module: str = ""

    @property
    def name(self) -> str:
        """The name without the parameter."""
        return re.split(r"[\[@]", self.spec)[0]

    @property
    def counts_passages(self) -> bool:
        """Whether "@K" may be named, the number of passages to look at."""
        return self.spec.endswith("[@K]")


_ROWS = (
    Metric(
        "exact_match[:airrag|selfrag]",
        "whether the answer is an accepted one",
        "short answer",
        normalisations=("dragin", "airrag", "selfrag"),
    ),
    Metric(
        "f1[:airrag]",
        "harmonic mean of precision and recall over words, as multisets",
        "short answer",
        normalisations=("dragin", "airrag"),
    ),
    Metric(
        "precision[:airrag]",
        "share of the answer's words that are in an accepted one",
        "short answer",
        normalisations=("dragin", "airrag"),
        module="f1",
    ),
    Metric(
        "recall[:airrag]",
        "share of an accepted answer's words that are in the answer",
        "short answer",
        normalisations=("dragin", "airrag"),
        module="f1",
    ),
    Metric(
        "accuracy",
        "whether an accepted answer is part of the short answer",
        "short answer",
    ),
    Metric(
        "yes_no_accuracy",
        "whether yes or no is right; other questions don't count",
        "short answer",
    ),
    Metric(
        "choice_accuracy",
        "whether the option named first is the right one; questions without options don't count",
        "short answer",
        takes_example=True,
    ),
    Metric(
        "match[:normalised]",
        "whether an accepted answer occurs in the text, letter by letter",
        "text",
        normalisations=("raw", "normalised"),
    ),
    Metric(
        "rouge_l",
        "longest common subsequence of words, as an F-measure",
        "text",
        module="rouge",
        package="rouge_score",
        extra="eval",
    ),
    Metric(
        "rouge_lsum",
        "the same sentence by sentence, with stemming",
        "text",
        module="rouge",
        package="rouge_score",
        extra="eval",
    ),
    Metric(
        "str_em",
        "share of the things that a long answer has to tell which occur in it",
        "text",
        takes_example=True,
    ),
    Metric(
        "citation_precision",
        "share of the cited passages whose title is a supporting one",
        "citations",
        takes_example=True,
        module="citations",
    ),
    Metric(
        "citation_recall",
        "share of the supporting titles that are cited",
        "citations",
        takes_example=True,
        module="citations",
    ),
    Metric(
        "supporting_recall[@K]",
        "share of the supporting titles among all passages found, or the first K different ones",
        "trace",
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


def open_metrics(names: Sequence[str] = DEFAULT_METRICS, reading: Reading = Reading()) -> Scoring:
    """The metrics of these names, checked and imported before anything runs.

    A parameter follows the name: ``f1:airrag`` names a normalisation, ``supporting_recall@5`` a number.

    Raises:
        UnknownName: no such metric or normalisation.
        InputError: no name, a parameter that the metric does not take, or a metric twice.
        MissingExtra: a package is not installed; names the pip line.
    """
    if not names:
        raise InputError(f"no metric is named: name one or more, such as {DEFAULT_METRICS[0]}.")
    _check_each_is_named_once(names)
    return Scoring(tuple(names), tuple(_open(name) for name in names), reading)


def _check_each_is_named_once(names: Iterable[str]) -> None:
    named: dict[tuple[Any, ...], str] = {}
    for name in names:
        stem, settings = _read(name)
        key = (stem, *settings.values())
        if key in named:
            raise InputError(f"metric {name!r} is named twice, first as {named[key]!r}: leave one out.")
        named[key] = name


def _open(name: str) -> Score:
    stem, settings = _read(name)
    metric = _row(stem)
    if metric.package and find_spec(metric.package) is None:
        raise MissingExtra(metric.package, metric.extra, f"metric {name!r}")
    target = metric.module or stem
    module, _, function = (target if ":" in target else f"{__name__}.{target}:{stem}").partition(":")
    scorer = attrgetter(function)(import_module(module))

    def score(example: Example, answer: Answer, events: Sequence[AnyEvent]) -> float | None:
        if not metric.takes_example and not example.golds:
            return None
        judged = _read_by(metric.reads, answer, events)
        found: float | None = scorer(judged, example if metric.takes_example else example.golds, **settings)
        return found

    return score


def _read_by(reads: Reads, answer: Answer, events: Sequence[AnyEvent]) -> Any:
    if reads == "trace":
        return events
    return {"short answer": answer.short, "text": answer.text, "citations": answer.citations}[reads]


def _read(name: str) -> tuple[str, dict[str, Any]]:
    """The metric and its parameter by the name that its function has for it; defaults are filled in."""
    stem, mark, parameter = _split(name)
    if stem not in known_names("metrics", METRICS):
        if mark == ":" and find_extension("metrics", name) is not None:
            return name, {}
        known = known_names("metrics", METRICS)
        raise UnknownName("metric", stem, known, place="" if stem == name else f"in {name!r}")
    metric = _row(stem)
    if mark == ":" and metric.normalisations:
        if parameter not in metric.normalisations:
            raise UnknownName("normalisation", parameter, metric.normalisations, place=f"in metric {name!r}")
        return stem, {"normalisation": parameter}
    if mark == "@" and metric.counts_passages:
        if not re.fullmatch("[1-9][0-9]*", parameter):
            raise InputError(f"metric {name!r}: {parameter!r} is no number of passages; write {stem}@5.")
        return stem, {"first": int(parameter)}
    if mark:
        raise InputError(f"metric {name!r}: {stem} takes no {mark + parameter!r}; write {metric.spec}.")
    return stem, {"normalisation": metric.normalisations[0]} if metric.normalisations else {}


def _row(stem: str) -> Metric:
    """The row of a metric; that of a plug-in, or of ``module:function``, is made of what it offers."""
    if stem in METRICS:
        return METRICS[stem]
    found = find_extension("metrics", stem)
    if isinstance(found, Metric):
        return found
    if not callable(found):
        raise InputError(f"the metric {stem} is no function ({found!r}): it takes an answer and the golds.")
    return Metric(stem, "of a plug-in", "short answer", module=f"{found.__module__}:{found.__qualname__}")


def _split(name: str) -> tuple[str, str, str]:
    """The name of a metric before its parameter, the sign between them and the parameter, if there is one."""
    at = min((at for at in map(name.find, ":@") if at >= 0), default=len(name))
    return name[:at], name[at : at + 1], name[at + 1 :]
