"""Summaries of runs: the metrics of the answers, with confidence intervals, and their cost.

Means are over the finished questions. A failed question counts as wrong, and its cost counts up to the
failure.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

from askance.core.errors import RunFolderError
from askance.core.types import Task
from askance.evaluation.metrics.prices import Prices, cost
from askance.evaluation.run.readings import DEFAULT_READING
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, mean_interval
from askance.evaluation.statistics.selective import Selective, selective_summary

Intervals = Mapping[str, MeanInterval]
_OF_CLOSED_TASKS: Mapping[Task, str] = {"yes_no": "yes_no_accuracy", "choice": "choice_accuracy"}


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost per question: means over the questions, except for the seconds.

    Attributes:
        calls: The model calls (see `Usage`); 0 for runs of versions that did not count them.
        tokens: The prompt tokens, reused or not, and the generated tokens, including discarded ones. They do
            not depend on what ran before.
        median_seconds: The median time from question to answer; a single stall would dominate a mean.
        p95_seconds: The 95th percentile of that time, interpolated between questions.
        price: The cost in the currency of the given prices; None without prices.
        is_upper_bound: Whether `tokens` is an upper bound, because some counts are not known.
    """

    searches: float
    calls: float
    tokens: float
    tokens_generated: float
    median_seconds: float
    p95_seconds: float
    price: float | None = None
    is_upper_bound: bool = False

    @property
    def tokens_text(self) -> str:
        """The value of `tokens` as text, which says whether it is an upper bound."""
        return f"{'≤ ' if self.is_upper_bound else ''}{self.tokens:,.0f}"

    @property
    def calls_text(self) -> str:
        """The value of `calls` as text, which is a dash if they were not counted."""
        return "–" if self.tokens and not self.calls else f"{self.calls:.1f}"


def speed_of(run: RecordedRun) -> dict[str, float]:
    """Return the wall time of a whole run, without the loading of models, and its throughput, by heading.

    The result is empty if the run did not record its time.
    """
    seconds = max(record.run_seconds for record in run.records)
    if not seconds:
        return {}
    num_generated = sum(record.usage.generated_tokens for record in run.records)
    speeds = seconds, len(run.records) / seconds, num_generated / seconds
    return dict(zip(("wall s", "questions/s", "generated/s"), speeds, strict=True))


@dataclass(frozen=True, slots=True)
class PartSummary:
    """The summary of a part of a run: the questions of one kind, or with one number of hops.

    Attributes:
        part: The kind or the number of hops, as text.
    """

    part: str
    num_questions: int
    failures: int
    metrics: Intervals
    costs: Costs


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The summary of a run.

    Attributes:
        title: The method with the parameters that differ from their defaults.
        method: The name of the method.
        num_finished: The number of finished questions; only these count in the other attributes.
        failures: The number of questions that failed; they are among the finished ones.
        main_metric: The metric to judge the run by (see `main_metrics`); empty if no metric has a score.
        metrics: The metrics by name, each over the questions that it applies to.
        share_answered: The fraction of questions with a short answer that was not abstained from.
        by_kind, by_hops: The summaries by kind of question and by number of hops, with the main metrics only.
            Empty if all questions have the same kind or number of hops.
        reading: The rules by which short answers were extracted (see `evaluation.run.readings`).
        selective: What the confidence of the answers is worth, by the main metric; None if they have none.
        speed: The wall time and the throughput of the whole run (see `speed_of`).
        in_flight: The number of questions that were answered at the same time.
    """

    folder: str
    dataset: str
    title: str
    method: str
    models: Mapping[str, str]
    num_questions: int
    num_finished: int
    failures: int
    main_metric: str
    metrics: Intervals
    costs: Costs
    share_answered: float
    by_kind: tuple[PartSummary, ...]
    by_hops: tuple[PartSummary, ...]
    reading: str = DEFAULT_READING
    selective: Selective | None = None
    speed: Mapping[str, float] = field(default_factory=dict)
    in_flight: str = ""


def summarise(run: RecordedRun, prices: Prices | None = None) -> RunSummary:
    """Return the summary of a run, over its finished questions.

    Args:
        prices: The prices of tokens and searches, if the cost in money is wanted.

    Raises:
        RunFolderError: The run has no finished question.
    """
    records = run.records
    if not records:
        raise RunFolderError(
            f"the run {run.folder} has no finished question: run its `askance eval` command again."
        )
    main = main_metrics(run)
    return RunSummary(
        folder=str(run.folder),
        dataset=run.settings.dataset,
        title=run.settings.title,
        method=run.settings.method,
        models=dict(run.settings.models),
        num_questions=run.settings.num_questions,
        num_finished=len(records),
        failures=sum(record.is_failure for record in records),
        main_metric=next(iter(main), ""),
        metrics=_intervals(records, run.settings.metrics),
        costs=costs_of(records, prices),
        share_answered=statistics.fmean(bool(record.short and not record.abstained) for record in records),
        by_kind=_parts(records, main, attrgetter("kind")),
        by_hops=_parts(records, main, attrgetter("hops")),
        reading=run.settings.reading,
        selective=selective_summary(records, main[0]) if main else None,
        speed=speed_of(run),
        in_flight=run.settings.in_flight,
    )


def reading_note(reading: str) -> str:
    """Return a note, to append to a line, about the rules by which short answers were extracted.

    The note is empty for askance's own rules.
    """
    if reading == "authors":
        return ", answers read as the DRAGIN authors read them"
    return "" if reading == DEFAULT_READING else f", answers read by {reading}"


def main_metrics(run: RecordedRun) -> tuple[str, ...]:
    """Return the metrics to judge a run by, the main metric first.

    These are `yes_no_accuracy` if every question is a yes-or-no question, `choice_accuracy` if every question
    is multiple-choice, `str_em` if every question has answer groups, and otherwise `f1` and `exact_match`. If
    none of these was recorded, the result is the first metric that has a score, if there is one.
    """
    recorded = [name for name in run.settings.metrics if scores_of(run.records, name)]
    tasks = {record.task for record in run.records}
    wanted = ["f1", "exact_match"]
    if len(scores_of(run.records, "str_em")) == len(run.records):
        wanted = ["str_em"]
    elif len(tasks) == 1 and tasks <= _OF_CLOSED_TASKS.keys():
        wanted = [_OF_CLOSED_TASKS[tasks.pop()]]
    return tuple(name for name in wanted if name in recorded) or tuple(recorded[:1])


def scores_of(records: Iterable[Record], metric: str) -> dict[str, float]:
    """Return the scores in a metric by question id, for the questions that the metric applies to."""
    scores = ((record.id, record.scores.get(metric)) for record in records)
    return {id: score for id, score in scores if score is not None}


def costs_of(records: Sequence[Record], prices: Prices | None = None) -> Costs:
    """Return the cost per question of these records."""
    usages = [record.usage for record in records]
    seconds = [usage.seconds for usage in usages]
    return Costs(
        searches=statistics.fmean(usage.searches for usage in usages),
        calls=statistics.fmean(usage.calls for usage in usages),
        tokens=statistics.fmean(usage.tokens for usage in usages),
        tokens_generated=statistics.fmean(usage.generated_tokens for usage in usages),
        median_seconds=statistics.median(seconds),
        p95_seconds=float(np.percentile(seconds, 95)),
        price=None if prices is None else statistics.fmean(cost(usage, prices) for usage in usages),
        is_upper_bound=any(usage.is_upper_bound for usage in usages),
    )


def _intervals(records: Sequence[Record], metrics: Iterable[str]) -> dict[str, MeanInterval]:
    scores = {metric: list(scores_of(records, metric).values()) for metric in metrics}
    return {metric: mean_interval(values) for metric, values in scores.items() if values}


def _parts(
    records: Sequence[Record], metrics: Sequence[str], part_of: Callable[[Record], Any]
) -> tuple[PartSummary, ...]:
    parts: dict[Any, list[Record]] = {}
    for record in records:
        parts.setdefault(part_of(record), []).append(record)
    if len(parts) < 2:
        return ()
    # Parts are sorted; the part without a kind or number comes last.
    in_order = sorted(parts, key=lambda part: (part in ("", None), part))
    return tuple(
        PartSummary(
            part="not given" if part in ("", None) else str(part),
            num_questions=len(parts[part]),
            failures=sum(record.is_failure for record in parts[part]),
            metrics=_intervals(parts[part], metrics),
            costs=costs_of(parts[part]),
        )
        for part in in_order
    )
