"""Several rankings of the same things made into one."""

from collections.abc import Hashable, Sequence
from math import fsum
from typing import TypeVar

from askance.core.types import Hit

T = TypeVar("T", bound=Hashable)


def fuse(rankings: Sequence[Sequence[T]], *, constant: int = 60) -> list[tuple[T, float]]:
    """Reciprocal-rank fusion (Cormack, Clarke and Büttcher 2009, SIGIR).

    (The paper is "Reciprocal Rank Fusion Outperforms Condorcet and Individual Rank Learning Methods".) The
    score of a thing is the sum, over the rankings that hold it, of 1 / (constant + rank), ranks from 1. It
    reads ranks alone, so that rankings by scores of any scale can be fused.

    Args:
        rankings: of things, such as ids of passages, each best first. A thing that stands twice in one
            ranking counts there once, at its best place, and those behind it move up.
        constant: how little the first places weigh more than those behind them; 60 is the paper's.

    Returns:
        Each thing with its score, best first; equal scores in the order of first appearance. The order of
        the rankings changes no score.

    >>> [name for name, _ in fuse(["abc", "cd"])]
    ['c', 'a', 'b', 'd']
    """
    shares: dict[T, list[float]] = {}
    for ranking in rankings:
        for rank, each in enumerate(dict.fromkeys(ranking), start=1):
            shares.setdefault(each, []).append(1 / (constant + rank))
    scores = [(each, fsum(found)) for each, found in shares.items()]
    return sorted(scores, key=lambda entry: -entry[1])


def fuse_hits(rankings: Sequence[Sequence[Hit]]) -> tuple[Hit, ...]:
    """Lists of hits as one, by the ids of their passages, with the scores and ranks that `fuse` gives."""
    passages = {hit.passage.id: hit.passage for hits in rankings for hit in hits}
    fused = fuse([[hit.passage.id for hit in hits] for hits in rankings])
    return tuple(Hit(passages[id], score, rank) for rank, (id, score) in enumerate(fused, start=1))
