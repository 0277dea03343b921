"""The results of methods on several datasets: means, their average over datasets, and an overall paired test.

The average gives every dataset the same weight (macro average). The test is the paired permutation test of
`compare`, stratified by dataset: signs are flipped question by question, and the statistic is the difference
between the averages, in which a question of a small dataset weighs more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from askance.evaluation.statistics.compare import holm_adjusted, permutation_test
from askance.evaluation.statistics.run_groups import RunGroup
from askance.evaluation.statistics.summaries import scores_of

_Scores = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Average:
    """The results of a run's method on several datasets.

    Attributes:
        base: The name of the run that the others are compared with.
        metrics: The metric of each dataset.
        means: The mean on each dataset; datasets without such a run are absent.
        average: The average of the means; None if a dataset is absent.
        difference: The difference from the average of the base run; None if there is none.
        p, p_holm: The p-value of the stratified test, and the one corrected for all runs of the table.
    """

    run: str
    base: str
    metrics: Mapping[str, str]
    means: Mapping[str, float]
    average: float | None
    difference: float | None
    p: float | None
    p_holm: float | None


Averages = Sequence[Sequence[Average]]
"""A table of results for each metric."""


def average_groups(groups: Sequence[RunGroup], metrics: Sequence[Sequence[str]], base: str) -> Averages:
    """Return the results over all groups: first by the first metric of each group, then by the second.

    Runs of different groups belong together if they have the same name. There are no results for one group.

    Args:
        metrics: The metrics of each group.
        base: The name of the run that the others are compared with.
    """
    return [_averages(groups, chosen, base) for chosen in zip(*metrics, strict=False) if len(groups) > 1]


def _averages(groups: Sequence[RunGroup], metrics: Sequence[str], base: str) -> tuple[Average, ...]:
    scores: dict[str, dict[str, Mapping[str, float]]] = {}
    for group, metric in zip(groups, metrics, strict=True):
        for name, run in zip(group.names, group.runs, strict=True):
            scores.setdefault(name, {})[group.dataset] = scores_of(run.records, metric)
    whole = [name for name, by_dataset in scores.items() if len(by_dataset) == len(groups)]
    gains = {name: _gains(scores[name], scores[base]) for name in whole if base in whole and name != base}
    ps = {name: permutation_test(values) for name, values in gains.items()}
    holm = dict(zip(ps, holm_adjusted([*ps.values()]), strict=True))
    of_datasets = {group.dataset: metric for group, metric in zip(groups, metrics, strict=True)}
    return tuple(
        Average(
            name,
            base,
            of_datasets,
            means := {dataset: fmean(values.values()) for dataset, values in by_dataset.items()},
            fmean(means.values()) if name in whole else None,
            sum(gains[name]) if name in gains else None,
            ps.get(name),
            holm.get(name),
        )
        for name, by_dataset in scores.items()
    )


def _gains(scores: _Scores, bases: _Scores) -> list[float]:
    """Return what each question with a score in both runs adds to the difference between the averages."""
    shared = {dataset: sorted(scores[dataset].keys() & bases[dataset].keys()) for dataset in scores}
    return [
        (scores[dataset][id] - bases[dataset][id]) / len(ids) / len(shared)
        for dataset, ids in shared.items()
        for id in ids
    ]
