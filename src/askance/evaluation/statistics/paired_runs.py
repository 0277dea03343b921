"""Paired comparisons of runs: differences with intervals and p-values, and the questions that differ most."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean, stdev

from askance.core.errors import InputError, UnknownName
from askance.evaluation.metrics.prices import Prices
from askance.evaluation.statistics.compare import ROUNDING, MeanInterval, holm_adjusted, paired_test
from askance.evaluation.statistics.run_groups import DifferingSetting, RunGroup
from askance.evaluation.statistics.summaries import RunSummary, main_metrics, scores_of, speed_of, summarise


@dataclass(frozen=True, slots=True)
class QuestionDifference:
    """A question on which two runs have different scores, with the short answers and scores of both runs."""

    id: str
    question: str
    golds: tuple[str, ...]
    run_short: str
    base_short: str
    run_score: float
    base_score: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between `run` and `base` in one metric, over the questions with a score in both runs.

    Attributes:
        p: The p-value of the permutation test, uncorrected.
        p_holm: The p-value corrected for all comparisons by this metric in the same `Comparisons`.
        won, lost, tied: Counts of the questions on which the score of `run` is higher than, lower than or
            equal to that of `base`.
        questions: The questions whose scores differ most. They are listed only for the first metric.
    """

    metric: str
    run: str
    base: str
    difference: MeanInterval
    p: float
    p_holm: float
    won: int
    lost: int
    tied: int
    questions: tuple[QuestionDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """The results of runs that differ in their seed alone.

    Attributes:
        name: The name of the runs without the seed.
        means: The mean and the sample standard deviation of the runs' means, by metric.
    """

    name: str
    seeds: tuple[int, ...]
    means: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The summaries and comparisons of runs over the same questions.

    Attributes:
        names: The names of the runs, in the order of `summaries`.
        num_asked: The number of questions of each whole run, including those that are not compared.
        num_finished: The number of finished questions of each whole run.
        summaries: The summaries of the runs, over the compared questions only.
        currency: The currency of the prices in `summaries`; empty if there are no prices.
        over_seeds: The results of the methods that have several seeds.
    """

    dataset: str
    num_questions: int
    names: tuple[str, ...]
    num_asked: tuple[int, ...]
    num_finished: tuple[int, ...]
    summaries: tuple[RunSummary, ...]
    currency: str
    differing: tuple[DifferingSetting, ...]
    shared_parameters: Mapping[str, str]
    metrics: tuple[str, ...]
    differences: tuple[Comparison, ...]
    over_seeds: tuple[OverSeeds, ...] = ()

    @property
    def by_run(self) -> dict[str, RunSummary]:
        """The summaries by the names of the runs."""
        return dict(zip(self.names, self.summaries, strict=True))


def compare_group(
    group: RunGroup,
    *,
    metrics: Sequence[str] = (),
    base: int = 0,
    all_pairs: bool = False,
    num_questions: int = 0,
    prices: Prices | None = None,
) -> Comparisons:
    """Compare each run of a group with a base run, or every pair of runs.

    If the base run's method has several seeds, a run is compared with the base run of the same seed. Runs
    that differ in their seed alone are not compared with each other.

    Args:
        metrics: The metrics to compare by; by default the main metrics.
        base: The index of the base run, with which the other runs are compared.
        all_pairs: Whether to compare every pair of runs, instead of each run with the base run.
        num_questions: The number of questions to list for each comparison, starting with the largest
            difference.
        prices: The prices of tokens and searches, if the cost in money is wanted.

    Raises:
        UnknownName: A run has no score in one of the metrics.
    """
    chosen, indices = _chosen_metrics(group, metrics), range(len(group.runs))
    bases = group.seeds_of(base)
    pairs = [(index, bases.get(group.whole[index].settings.seed, base)) for index in indices]
    if all_pairs:
        pairs = [(later, earlier) for earlier, later in combinations(indices, 2)]
    pairs = [(run, other) for run, other in pairs if other not in (run, *group.seeds_of(run).values())]
    summaries = tuple(
        replace(summarise(run, prices), speed=speed_of(whole))
        for run, whole in zip(group.runs, group.whole, strict=True)
    )
    return Comparisons(
        dataset=group.dataset,
        num_questions=max(len(run.records) for run in group.runs),
        names=group.names,
        num_asked=tuple(run.settings.num_questions for run in group.whole),
        num_finished=tuple(len(run.records) for run in group.whole),
        summaries=summaries,
        currency="" if prices is None else prices.currency,
        differing=group.differing,
        shared_parameters=group.shared_parameters,
        metrics=chosen,
        differences=tuple(
            each
            for metric in chosen
            for each in _compared(group, metric, pairs, num_questions if metric == chosen[0] else 0)
        ),
        over_seeds=tuple(_over_seeds(group, summaries, chosen)),
    )


def _over_seeds(
    group: RunGroup, summaries: Sequence[RunSummary], metrics: Sequence[str]
) -> Iterator[OverSeeds]:
    for index, name in enumerate(group.names):
        runs = group.seeds_of(index)
        if len(runs) > 1 and min(runs.values()) == index:
            means = {each: [summaries[run].metrics[each].mean for run in runs.values()] for each in metrics}
            shown = ", ".join(part for part in name.split(", ") if not part.startswith("seed="))
            spread = {metric: (fmean(values), stdev(values)) for metric, values in means.items()}
            yield OverSeeds(shown, tuple(runs), spread)


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
    comparisons = [_comparison(group, metric, *pair, num_questions) for pair in pairs]
    adjusted = holm_adjusted([each.p for each in comparisons])
    return [replace(each, p_holm=p) for each, p in zip(comparisons, adjusted, strict=True)]


def _comparison(group: RunGroup, metric: str, run: int, base: int, num_questions: int) -> Comparison:
    """Return the comparison of two runs, over the questions that have a score in both."""
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
    gains = {id: gain if abs(gain) > ROUNDING else 0.0 for id, gain in exact.items()}
    most = sorted(filter(gains.get, gains), key=lambda id: -abs(gains[id]))[:num_questions]
    records, base_records = ({record.id: record for record in each.records} for each in of_both)
    difference, p = paired_test(scores, base_scores)
    return Comparison(
        metric=metric,
        run=name,
        base=base_name,
        difference=difference,
        p=p,
        p_holm=p,
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
