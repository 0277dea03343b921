"""What a run comes to: how right its answers are, with intervals, and what they cost.

Means are over the finished questions. A failed one counts: as wrong, with what it cost until it failed.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from askance.core.errors import RunFolderError
from askance.core.parameters import titled
from askance.core.types import Task
from askance.evaluation.metrics.prices import Prices, cost
from askance.evaluation.run.readings import DEFAULT_READING, ReadingName
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.statistics.compare import MeanInterval, mean_interval

Intervals = Mapping[str, MeanInterval]
_OF_CLOSED_TASKS: Mapping[Task, str] = {"yes_no": "yes_no_accuracy", "choice": "choice_accuracy"}


@dataclass(frozen=True, slots=True)
class Costs:
    """What a question cost: means over questions, except for the seconds.

    Attributes:
        tokens_computed: of prompts, as far as no cache had them, and generated ones, kept or not.
        median_seconds: from question to answer; time has no mean, which a single stall would decide.
        p95_seconds: 95 % of the questions took no longer; between two questions it is interpolated.
        price: in the currency of the prices that were given; None without prices.
        is_upper_bound: `tokens_computed` is an upper bound, since the tokens of some prompts are not known.
    """

    searches: float
    tokens_computed: float
    tokens_generated: float
    tokens_reused: float
    median_seconds: float
    p95_seconds: float
    price: float | None = None
    is_upper_bound: bool = False

    @property
    def computed_text(self) -> str:
        """`tokens_computed` as it is shown."""
        return f"{'≤ ' if self.is_upper_bound else ''}{self.tokens_computed:,.0f}"


@dataclass(frozen=True, slots=True)
class PartSummary:
    """The questions of one kind, or of one number of hops: `part` is that kind or number."""

    part: str
    num_questions: int
    failures: int
    metrics: Intervals
    costs: Costs


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in numbers.

    Attributes:
        title: the method with its profile and the parameters that are not at their defaults; `method` is the
            method with its profile alone.
        num_questions: of the run; `num_finished` of them are, and only these count below.
        failures: how many questions broke; they are among the finished ones.
        reading: how short answers were read, see `evaluation.run.readings`.
        main_metric: the one to judge by, see `main_metrics`; empty where no metric has a score.
        metrics: by name; only those that apply to a question, each over the questions it applies to.
        share_answered: of questions whose answer has a short form.
        by_kind, by_hops: the same for parts of the questions, metrics limited to the main ones; empty where
            the dataset does not tell parts apart.
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
    reading: ReadingName = DEFAULT_READING


def summarise(run: RecordedRun, prices: Prices | None = None) -> RunSummary:
    """The numbers of a run; of an unfinished one, over what is finished.

    Args:
        prices: of tokens and searches, to tell what a question cost in money.

    Raises:
        RunFolderError: not a single question is finished.
    """
    records = run.records
    if not records:
        raise RunFolderError(
            f"the run {run.folder} has no finished question: run the `askance eval` that began it again."
        )
    main = main_metrics(run)
    return RunSummary(
        folder=str(run.folder),
        dataset=run.settings.dataset,
        title=run.settings.title,
        method=titled(run.settings.method, run.settings.profile),
        models=dict(run.settings.models),
        num_questions=run.settings.num_questions,
        num_finished=len(records),
        failures=sum(record.is_failure for record in records),
        main_metric=next(iter(main), ""),
        metrics=_intervals(records, run.settings.metrics),
        costs=costs_of(records, prices),
        share_answered=statistics.fmean(bool(record.short) for record in records),
        by_kind=_parts(records, main, attrgetter("kind")),
        by_hops=_parts(records, main, attrgetter("hops")),
        reading=run.settings.reading,
    )


def reading_told(reading: ReadingName) -> str:
    """What is added to a line about answers that are not read in our own way."""
    return ", answers read as the DRAGIN authors read them" if reading == "authors" else ""


def main_metrics(run: RecordedRun) -> tuple[str, ...]:
    """The metrics to judge a run by, the main one first.

    It is `yes_no_accuracy` where every question is one of yes or no, `choice_accuracy` where every one is a
    choice, `str_em` where every one has several things to tell, otherwise `f1` with `exact_match` beside it.
    Where none of these was recorded, it is the first metric that was; none where no metric has a score.
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
    """By question id, of the questions that the metric applies to."""
    scores = ((record.id, record.scores.get(metric)) for record in records)
    return {id: score for id, score in scores if score is not None}


def costs_of(records: Sequence[Record], prices: Prices | None = None) -> Costs:
    """What one of these questions cost."""
    usages = [record.usage for record in records]
    seconds = [usage.seconds for usage in usages]
    return Costs(
        searches=statistics.fmean(usage.searches for usage in usages),
        tokens_computed=statistics.fmean(usage.computed_tokens for usage in usages),
        tokens_generated=statistics.fmean(usage.generated_tokens for usage in usages),
        tokens_reused=statistics.fmean(usage.reused_tokens for usage in usages),
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
    # A part without a name is the last one; numbers of hops are in their order.
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
