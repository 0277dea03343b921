"""The numbers of the study, and the conditions of its gate."""

from collections.abc import Sequence
from statistics import fmean

from askance.evaluation.statistics.compare import MeanInterval, mean_interval, paired_difference
from askance.evaluation.statistics.roc import shown_area
from askance.evaluation.statistics.summaries import scores_of
from studies.depth.runs import (
    DRAGIN,
    ITERDRAG,
    METRIC,
    ONE,
    PATHS,
    RM_VOTE,
    SELFRAG,
    SINGLE,
    TREE,
    Made,
)
from studies.depth.world import HOPS
from studies.shared import GateRow, in_points

SEVERAL = tuple(hops for hops in HOPS if hops > 1)
CLAIMS = ((DRAGIN, SINGLE), (SELFRAG, SINGLE), (ITERDRAG, SINGLE), (ONE, ITERDRAG), (TREE, ONE))
"""Pairs of methods of which the papers claim that the first is better."""
MIN_AREA = 0.75
MAX_DIFFERENCE = 0.05
"""The greatest difference between the tokens of a tree and those of independent paths, as a share."""


def accuracy(made: Made, method: str, hops: int) -> MeanInterval:
    """Return the exact match of a method at a number of hops."""
    return mean_interval([*scores_of(made.records[method][hops], METRIC).values()])


def tokens(made: Made, method: str, hops: Sequence[int] = HOPS) -> float:
    """Return the mean number of tokens that a method read and wrote per question."""
    return fmean(record.usage.tokens for each in hops for record in made.records[method][each])


def difference(made: Made, method: str, other: str, hops: Sequence[int] = SEVERAL) -> MeanInterval:
    """Return the exact match of a method less that of another one, over questions with so many hops."""
    own, base = (
        {
            f"{each} {id}": score
            for each in hops
            for id, score in scores_of(made.records[name][each], METRIC).items()
        }
        for name in (method, other)
    )
    return paired_difference(own, base)


def gate(made: Made) -> list[GateRow]:
    """Return the conditions under which the study is convincing, on questions of several hops."""
    rows = []
    for better, worse in CLAIMS:
        found = difference(made, better, worse)
        condition = f"{better} is above {worse}, beyond the interval"
        rows.append(GateRow(condition, in_points(found), found.low > 0))
    area = made.reward.area if made.reward else None
    condition = f"the AUC of the reward on the steps of all asked questions is at least {MIN_AREA}"
    measured = shown_area(area) if area else "no steps of both kinds"
    rows.append(GateRow(condition, measured, area is not None and area.area >= MIN_AREA))
    found = difference(made, RM_VOTE, TREE)
    rows.append(GateRow("rm_vote is not worse than the vote by paths", in_points(found), found.high >= 0))
    for hops in (*((each,) for each in SEVERAL), SEVERAL):
        found = difference(made, TREE, PATHS, hops)
        more = tokens(made, PATHS, hops) / tokens(made, TREE, hops) - 1
        name = f"{hops[0]} hops" if len(hops) == 1 else "all of them"
        condition = f"{name}: a tree is not worse than independent paths at equal tokens"
        measured = f"{in_points(found)}; the paths take {more:+.1%} tokens"
        rows.append(GateRow(condition, measured, found.high >= 0 and abs(more) <= MAX_DIFFERENCE))
    return rows
