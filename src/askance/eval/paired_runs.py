"""Runs held against each other question by question: differences, whether they are more than chance, and the
questions that make them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from askance.core.errors import InputError, UnknownName
from askance.eval.compare import Difference, PValue, holm, paired_difference, sign_flip_p
from askance.eval.metrics.prices import Prices
from askance.eval.run_groups import Differing, RunGroup
from askance.eval.summaries import RunSummary, main_metrics, scores_of, summarise

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
    shared_knobs: Mapping[str, str]
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
    chosen = _chosen_metrics(group, metrics)
    pairs = list(_pairs(len(group.runs), base, all_pairs))
    return Comparisons(
        dataset=group.dataset,
        num_questions=max(len(run.records) for run in group.runs),
        names=group.names,
        num_asked=tuple(run.settings.num_questions for run in group.whole),
        num_finished=tuple(len(run.records) for run in group.whole),
        summaries=tuple(summarise(run, prices) for run in group.runs),
        currency="" if prices is None else prices.currency,
        differing=group.differing,
        shared_knobs=group.shared_knobs,
        metrics=chosen,
        differences=tuple(
            each
            for metric in chosen
            for each in _compared(group, metric, pairs, num_questions if metric == chosen[0] else 0)
        ),
    )


def _pairs(num_runs: int, base: int, all_pairs: bool) -> Iterator[tuple[int, int]]:
    if all_pairs:
        return ((later, earlier) for earlier, later in combinations(range(num_runs), 2))
    return ((at, base) for at in range(num_runs) if at != base)


def _chosen_metrics(group: RunGroup, wanted: Sequence[str]) -> tuple[str, ...]:
    shared = [
        metric
        for metric in group.runs[0].settings.metrics
        if all(scores_of(run.records, metric) for run in group.runs)
    ]
    for metric in wanted:
        if metric not in shared:
            place = (
                f"in the runs over {group.dataset} (`askance eval` with --metric scores a run by another one)"
            )
            raise UnknownName("metric", metric, shared, place=place)
    if wanted:
        return tuple(dict.fromkeys(wanted))
    main = [metric for metric in main_metrics(group.runs[0]) if metric in shared]
    return tuple(main or shared[:1])


def _compared(
    group: RunGroup, metric: str, pairs: Sequence[tuple[int, int]], num_questions: int
) -> Iterator[Comparison]:
    scores = [_scores_of_pair(group, metric, *pair) for pair in pairs]
    gains = [{id: _gain(run[id], base[id]) for id in run} for run, base in scores]
    ps = [sign_flip_p(list(of_pair.values())) for of_pair in gains]
    adjusted = holm([found.p for found in ps])
    for at, (run, base) in enumerate(pairs):
        found = list(gains[at].values())
        yield Comparison(
            metric=metric,
            run=group.names[run],
            base=group.names[base],
            difference=paired_difference(*scores[at]),
            p=ps[at],
            p_holm=adjusted[at],
            won=sum(gain > 0 for gain in found),
            lost=sum(gain < 0 for gain in found),
            tied=found.count(0.0),
            questions=tuple(_most_different(group, run, base, metric, gains[at])[:num_questions]),
        )


def _scores_of_pair(
    group: RunGroup, metric: str, run: int, base: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The scores of the questions that the metric applies to in both runs."""
    of_run, of_base = (scores_of(group.runs[at].records, metric) for at in (run, base))
    shared = [id for id in of_run if id in of_base]
    if not shared:
        raise InputError(
            f"{group.names[run]} and {group.names[base]} have a score in {metric} for no question in common: "
            "choose another --metric."
        )
    return {id: of_run[id] for id in shared}, {id: of_base[id] for id in shared}


def _gain(score: float, base_score: float) -> float:
    gain = score - base_score
    return gain if abs(gain) > _ROUNDING else 0.0


def _most_different(
    group: RunGroup, run: int, base: int, metric: str, gains: Mapping[str, float]
) -> list[QuestionDifference]:
    """The questions whose scores differ, the greatest differences first."""
    of_run, of_base = ({record.id: record for record in group.runs[at].records} for at in (run, base))
    ids = sorted((id for id in gains if gains[id]), key=lambda id: -abs(gains[id]))
    pairs = [(of_run[id], of_base[id]) for id in ids]
    return [
        QuestionDifference(
            own.id,
            own.question,
            own.golds,
            own.short,
            other.short,
            own.scores[metric] or 0.0,
            other.scores[metric] or 0.0,
        )
        for own, other in pairs
    ]
