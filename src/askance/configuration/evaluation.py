"""The builder of what evaluations are made of: the names of datasets and metrics become objects.

examples = read_dataset("hotpotqa:hotpot_dev_distractor_v1.json", limit=500)
scoring = open_metrics(["exact_match", "f1", "supporting_recall@5"])
scores = scoring.scores(example, result.answer, result.trace.events)
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

from askance.configuration.catalogue import DATASETS, DEFAULT_METRICS, GATE, GATES, GUARDS, METRICS, READINGS
from askance.core.answers import Answer
from askance.core.errors import DatasetError, InputError, MissingExtra, UnknownName
from askance.core.extensions import NamedFunction, find_extension, find_with_place, known_names
from askance.core.spec import parse_spec
from askance.core.types import Question
from askance.evaluation.datasets import Dataset, DatasetFile, Example
from askance.evaluation.metrics import UNICODE, Metric
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.run.readings import AnswerReading, Reading
from askance.methods.gates.named import read_sum
from askance.methods.gates.signals import Gate
from askance.text.answers import AUTHORS_READINGS


def read_dataset(spec: str, limit: int | None = None) -> tuple[Example, ...]:
    """Return the examples of the dataset ``NAME:FILE[?OPTION=VALUE]``, in the order of the file.

    Args:
        limit: The maximum number of examples, counted from the first; None for all.

    Raises:
        UnknownName: There is no such dataset or option.
        DatasetError: The file can't be read, has no questions, or has two questions with the same id.
        InputError: The limit is below 1.
    """
    return find_dataset(spec).examples(limit)


def find_dataset(spec: str) -> DatasetFile:
    """Return the dataset file that ``NAME:FILE[?OPTION=VALUE]`` names.

    The questions may also be read by a plug-in (``NAME:FILE``) or by a ``module:function``; these may take
    any options.

    Raises:
        UnknownName: There is no such dataset or option.
        DatasetError: A file is missing, or is given to a dataset that takes none.
    """
    named = parse_spec(spec)
    dataset, path = DATASETS.get(named.name), named.place
    if dataset is None:
        extension = find_with_place("datasets", named.full_name)
        if extension is None:
            known, remedy = known_names("datasets", DATASETS), _with_dataset(named.name)
            raise UnknownName("dataset", named.name, known, place="(write NAME:FILE)", remedy=remedy)
        extension.check_declared((Dataset,), f"the dataset {named.full_name}")
        path = extension.place
        dataset = Dataset(named.name, extension.target)
    elif bool(path) != dataset.takes_path:
        problem = "names no file" if dataset.takes_path else f"takes no file; leave out {path!r}"
        raise DatasetError(f"dataset {spec!r} {problem}: write {dataset.spec}.")
    else:
        for option in named.options:
            if option not in dataset.options:
                raise UnknownName("dataset option", option, dataset.options, place=f"in {spec!r}")
        dataset = replace(dataset, read=resolve_name(cast(str, dataset.read)))
    return DatasetFile(spec, dataset, Path(path) if path else None, cast(dict[str, str], named.options))


def _with_dataset(file: str) -> str:
    """Return a hint for a user who named a file without a dataset.

    The hint is an empty string if `file` does not look like the name of a file with questions.
    """
    kinds = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
    kind = kinds.get(Path(file).suffix.lower())
    if kind is None:
        return ""
    return f"write {kind}:{file} for questions of your own, or the dataset's name in place of {kind}."


def open_metrics(names: Sequence[str] = DEFAULT_METRICS, reading: AnswerReading = AnswerReading()) -> Scoring:
    """Return the metrics with these names, ready to score answers.

    All names are checked here, so that a wrong name is reported before any question is asked. A parameter may
    follow a name, as in ``supporting_recall@5`` and ``exact_match:unicode``.

    Raises:
        UnknownName: There is no such metric.
        InputError: No metric is named, a metric does not take the parameter, or a metric is named twice.
        MissingExtra: A package is not installed; the message gives the pip command.
    """
    if not names:
        raise InputError(f"no metric is named: name one or more, such as {DEFAULT_METRICS[0]}.")
    named: dict[tuple[Any, ...], str] = {}
    metrics = {}
    for name in names:
        metric, parameters = _find_metric(name)
        if metric.package and find_spec(metric.package) is None:
            raise MissingExtra(metric.package, metric.extra, f"metric {name!r}")
        function = metric_function(metric)
        key = (function, metric.has_ascii_signs, *parameters.values())
        if key in named:
            raise InputError(f"metric {name!r} is named twice, first as {named[key]!r}: leave one out.")
        named[key] = name
        metrics[name] = replace(metric, function=partial(function, **parameters))
    return Scoring(metrics, reading)


def open_score(name: str) -> Callable[[str, Sequence[str]], float | None]:
    """Return a metric as a function of a short answer and the gold answers.

    Raises:
        InputError: The metric reads more than these; otherwise as for `open_metrics`.
    """
    metric = open_metrics([name]).metrics[name]
    if not metric.compares_texts:
        remedy = "name accuracy, f1 or another that compares texts."
        raise InputError(f"metric {name!r} needs more than the answer and the gold answers: {remedy}")

    def score(answer: str, golds: Sequence[str]) -> float | None:
        return metric.score(Example(Question("", ""), tuple(golds)), Answer(answer, answer), ())

    return score


def open_gates(names: Sequence[str] = ()) -> tuple[dict[str, Gate], dict[str, Gate]]:
    """Return all gates and all guards by name: those of the catalogue and of plug-ins.

    Args:
        names: Names among which there may be a ``module:function`` or a weighted sum, which is a gate, too.

    Raises:
        InputError: A plug-in can't be used, or there is no such function.
    """
    names = [*known_names("gates", GATES), *(name for name in names if ":" in name or "*" in name)]
    guards = {name: find_gate("guards", name) for name in known_names("guards", GUARDS)}
    return {name: find_gate("gates", name) for name in names}, guards


def find_gate(kind: str, name: str, further: Sequence[str] = ()) -> Gate:
    """Return a gate or guard of the catalogue, a plug-in, ``module:function`` or a weighted sum of gates.

    Args:
        kind: "gates" or "guards".
        further: What a user may mean besides gates, for the message if there is none of this name.

    Raises:
        UnknownName: There is no such gate.
        InputError: It can't be imported, does not declare itself a gate, or is no weighted sum.
    """
    own = GUARDS if kind == "guards" else GATES

    def find_own(name: str) -> Gate:
        if name not in own:
            raise UnknownName(kind.removesuffix("s"), name, own)
        return cast(Gate, resolve_name(GATE + name))

    if "*" in name:  # a sum may stand in data, and so names nothing else
        return read_sum(name, find_own)
    if name in own:
        return find_own(name)
    return find_function(kind, name, (*own, *further), Gate).function


def find_function(kind: str, name: str, own: Sequence[str], port: type) -> NamedFunction:
    """Return the function that a plug-in or ``module:function`` names.

    Args:
        kind: "gates", "guards", "query_modes" or "readings".
        own: The names that are part of askance, for the message if there is no such function.

    Raises:
        UnknownName: There is no such function.
        InputError: It can't be imported, or does not declare itself an implementation of `port`.
    """
    extension, what = find_extension(kind, name), kind.removesuffix("s").replace("_", " ")
    if extension is None:
        remedy = "it names no function that can be imported." if ":" in name else ""
        raise UnknownName(what, name, known_names(kind, own), remedy=remedy)
    extension.check_declared((port,), f"the {what} {name}")
    return NamedFunction(name, extension.target)


def open_reading(name: str, dataset: str) -> AnswerReading:
    """Return the reading with this name for a dataset, such as "hotpotqa:FILE".

    Raises:
        UnknownName: There is no such reading.
        InputError: The authors did not evaluate the dataset, or a plug-in can't be used.
    """
    own, authors = READINGS
    if name not in READINGS:
        return AnswerReading(find_function("readings", name, READINGS, Reading))
    rules = AUTHORS_READINGS.get(dataset.partition(":")[0]) if name == authors else None
    if name == authors and rules is None:
        raise InputError(
            f"reading {name!r}: the DRAGIN authors read answers of {', '.join(AUTHORS_READINGS)}, not of "
            f"{dataset.partition(':')[0]}: use --reading {own} there."
        )
    return AnswerReading(rules)


def metric_function(metric: Metric) -> Callable[..., float | None]:
    """Return the function that computes a metric of the catalogue or a plug-in."""
    named = metric.function
    return cast(Callable[..., float | None], resolve_name(named)) if isinstance(named, str) else named


def _find_metric(name: str) -> tuple[Metric, dict[str, Any]]:
    """Return the metric with this name, and the keyword arguments of its function."""
    stem, mark, parameter = name.partition("@")
    metric = METRICS.get(stem) or _metric_extension(stem)
    if metric is None:
        stem, mark, parameter = (*re.split("([:@])", name, maxsplit=1), "", "")[:3]
        metric = METRICS.get(stem)
    if metric is None:
        known = known_names("metrics", METRICS)
        raise UnknownName("metric", stem, known, place="" if stem == name else f"in {name!r}")
    if mark + parameter == UNICODE and metric.compares_texts:
        return replace(metric, has_ascii_signs=True), {}
    if mark == "@" and metric.counts_passages:
        if not re.fullmatch("[1-9][0-9]*", parameter):
            raise InputError(f"metric {name!r}: {parameter!r} is no number of passages; write {stem}@5.")
        return metric, {"first": int(parameter)}
    if mark:
        form = f"{stem}{metric.parameter}"
        raise InputError(f"metric {name!r}: {stem} takes no {mark + parameter!r}; write {form}.")
    return metric, {}


def _metric_extension(name: str) -> Metric | None:
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
