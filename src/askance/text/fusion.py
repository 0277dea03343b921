"""Rank fusion: several rankings of the same items combined into one."""

from collections.abc import Hashable, Sequence
from math import fsum
from typing import TypeVar

from askance.core.types import Hit

T = TypeVar("T", bound=Hashable)


def fuse(rankings: Sequence[Sequence[T]], *, constant: int = 60) -> list[tuple[T, float]]:
    """Combine rankings by reciprocal-rank fusion (Cormack, Clarke and Büttcher 2009, SIGIR).

    The paper is "Reciprocal Rank Fusion Outperforms Condorcet and Individual Rank Learning Methods". The
    score of an item is the sum of 1 / (constant + rank) over the rankings that contain it, with ranks from 1.
    Only ranks count, so rankings by scores of any scale can be fused.

    Args:
        rankings: The rankings of items, such as passage ids, each best first. An item that occurs twice in
            one ranking counts once, at its best rank, and the items after it move up.
        constant: A smoothing constant. A higher constant makes the advantage of the first ranks smaller. The
            paper uses 60.

    Returns:
        The items with their scores, best first. Items with equal scores are in the order of first
        appearance. The order of the rankings does not affect the scores.

    >>> [name for name, _ in fuse(["abc", "cd"])]
    ['c', 'a', 'b', 'd']
    """
    shares: dict[T, list[float]] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), start=1):
            shares.setdefault(item, []).append(1 / (constant + rank))
    scores = [(item, fsum(item_shares)) for item, item_shares in shares.items()]
    return sorted(scores, key=lambda entry: -entry[1])


def fuse_hits(rankings: Sequence[Sequence[Hit]]) -> tuple[Hit, ...]:
    """Combine lists of hits by passage id, and return the hits with the scores and ranks of `fuse`."""
    passages = {hit.passage.id: hit.passage for hits in rankings for hit in hits}
    fused = fuse([[hit.passage.id for hit in hits] for hits in rankings])
    return tuple(Hit(passages[id], score, rank) for rank, (id, score) in enumerate(fused, start=1))
