"""Rank fusion: several rankings of the same items combined into one."""

from collections.abc import Sequence
from math import fsum

from askance.core.types import Hit

_CONSTANT = 60
"""The smoothing constant of the paper."""


def fuse_hits(rankings: Sequence[Sequence[Hit]], constant: int = _CONSTANT) -> tuple[Hit, ...]:
    """Combine rankings by reciprocal-rank fusion (Cormack, Clarke and Büttcher 2009, SIGIR).

    The paper is "Reciprocal Rank Fusion Outperforms Condorcet and Individual Rank Learning Methods". The
    score of a passage is the sum of 1 / (constant + rank) over the rankings that contain it, ranks from 1.
    Only ranks count, so rankings by scores of any scale can be fused.

    Args:
        rankings: The rankings, each best first. A passage that occurs twice in one ranking counts once, at
            its best rank, and the passages after it move up.
        constant: A higher one makes the advantage of the first ranks smaller.

    Returns:
        The hits with their new scores and ranks, best first. Passages with equal scores are in the order of
        first appearance. The order of the rankings does not affect the scores.
    """
    passages = {hit.passage.id: hit.passage for hits in rankings for hit in hits}
    shares: dict[str, list[float]] = {id: [] for id in passages}
    for hits in rankings:
        for rank, id in enumerate(dict.fromkeys(hit.passage.id for hit in hits), start=1):
            shares[id].append(1 / (constant + rank))
    scores = {id: fsum(each) for id, each in shares.items()}
    best = sorted(scores, key=lambda id: -scores[id])
    return tuple(Hit(passages[id], scores[id], rank) for rank, id in enumerate(best, start=1))
