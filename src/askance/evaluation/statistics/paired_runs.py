"""Runs held against each other question by question: differences, whether they are more than chance, and the
questions that make them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from askance.core.errors import InputError, UnknownName
from askance.evaluation.metrics.prices import Prices
from askance.evaluation.statistics.compare import Difference, PValue, holm, paired_difference, sign_flip_p
from askance.evaluation.statistics.run_groups import Differing, RunGroup
from askance.evaluation.statistics.summaries import RunSummary, main_metrics, scores_of, summarise

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class QuestionDifference:
    """A question that two runs answered differently well; `run_short`, `base_short` are their answers."""

    id: str
    question: str
    golds: tuple[str, ...]
    run_short: str
    base_short: str
    run_score: float
    base_score: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """How much better `run` is than `base` by one metric, over the questions that have a score in both.

    Attributes:
        p: of the permutation test, for this comparison alone.
        p_holm: put right for all comparisons by this metric in the same `Comparisons`.
        won, lost, tied: questions where `run` scores higher, lower, the same.
        questions: those with the greatest differences, by the first metric alone.
    """

    metric: str
    run: str
    base: str
    difference: Difference
    p: PValue
    p_holm: float
    won: int
    lost: int
    tied: int
    questions: tuple[QuestionDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparisons:
    """All that is told of runs over the same questions.

    Attributes:
        names: of the runs, in the order of `summaries`, which count the compared questions alone.
        num_asked, num_finished: questions of each run as a whole, whether compared or not.
        currency: of the prices in `summaries`; empty without prices.
    """

    dataset: str
    num_questions: int
    names: tuple[str, ...]
    num_asked: tuple[int, ...]
    num_finished: tuple[int, ...]
    summaries: tuple[RunSummary, ...]
    currency: str
    differing: tuple[Differing, ...]
    shared_parameters: Mapping[str, str]
    metrics: tuple[str, ...]
    differences: tuple[Comparison, ...]


def compare_group(
    group: RunGroup,
    *,
    metrics: Sequence[str] = (),
    base: int = 0,
    all_pairs: bool = False,
    num_questions: int = 0,
    prices: Prices | None = None,
) -> Comparisons:
    """Each run of a group against the one at place `base`, or every two of them.

    Args:
        metrics: to compare by; the main ones if none is named.
        num_questions: how many questions with the greatest differences to tell, of each comparison.
        prices: of tokens and searches, to tell what a question cost in money.

    Raises:
        UnknownName: a metric that a run has no score in.
    """
    chosen, places = _chosen_metrics(group, metrics), range(len(group.runs))
    pairs = [(at, base) for at in places if at != base]
    if all_pairs:
        pairs = [(later, earlier) for earlier, later in combinations(places, 2)]
    return Comparisons(
        dataset=group.dataset,
        num_questions=max(len(run.records) for run in group.runs),
        names=group.names,
        num_asked=tuple(run.settings.num_questions for run in group.whole),
        num_finished=tuple(len(run.records) for run in group.whole),
        summaries=tuple(summarise(run, prices) for run in group.runs),
        currency="" if prices is None else prices.currency,
        differing=group.differing,
        shared_parameters=group.shared_parameters,
        metrics=chosen,
        differences=tuple(
            each
            for metric in chosen
            for each in _compared(group, metric, pairs, num_questions if metric == chosen[0] else 0)
        ),
    )


def _chosen_metrics(group: RunGroup, wanted: Sequence[str]) -> tuple[str, ...]:
    first, runs = group.runs[0], group.runs
    shared = [name for name in first.settings.metrics if all(scores_of(run.records, name) for run in runs)]
    for metric in wanted:
        if metric not in shared:
            remedy = "`askance eval` with --metric scores a run by another one"
            raise UnknownName("metric", metric, shared, place=f"in the runs over {group.dataset} ({remedy})")
    main = [metric for metric in main_metrics(first) if metric in shared]
    return tuple(dict.fromkeys(wanted)) or tuple(main or shared[:1])


def _compared(
    group: RunGroup, metric: str, pairs: Sequence[tuple[int, int]], num_questions: int
) -> list[Comparison]:
    found = [_comparison(group, metric, *pair, num_questions) for pair in pairs]
    adjusted = holm([each.p.p for each in found])
    return [replace(each, p_holm=p) for each, p in zip(found, adjusted, strict=True)]


def _comparison(group: RunGroup, metric: str, run: int, base: int, num_questions: int) -> Comparison:
    """One comparison alone, over the questions that the metric applies to in both runs."""
    name, base_name = group.names[run], group.names[base]
    of_both = group.runs[run], group.runs[base]
    scores, base_scores = (scores_of(each.records, metric) for each in of_both)
    shared = [id for id in scores if id in base_scores]
    if not shared:
        raise InputError(
            f"{name} and {base_name} have a score in {metric} for no question in common: choose another "
            "--metric."
        )
    scores, base_scores = ({id: each[id] for id in shared} for each in (scores, base_scores))
    exact = {id: scores[id] - base_scores[id] for id in shared}
    gains = {id: gain if abs(gain) > _ROUNDING else 0.0 for id, gain in exact.items()}
    most = sorted(filter(gains.get, gains), key=lambda id: -abs(gains[id]))[:num_questions]
    records, base_records = ({record.id: record for record in each.records} for each in of_both)
    p = sign_flip_p(list(gains.values()))
    return Comparison(
        metric=metric,
        run=name,
        base=base_name,
        difference=paired_difference(scores, base_scores),
        p=p,
        p_holm=p.p,
        won=sum(gain > 0 for gain in gains.values()),
        lost=sum(gain < 0 for gain in gains.values()),
        tied=list(gains.values()).count(0.0),
        questions=tuple(
            QuestionDifference(
                id,
                records[id].question,
                records[id].golds,
                records[id].short,
                base_records[id].short,
                scores[id],
                base_scores[id],
            )
            for id in most
        ),
    )
