"""One ranking made of several."""

from collections.abc import Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def fuse(rankings: Sequence[Sequence[T]], *, constant: int = 60) -> list[tuple[T, float]]:
    """Reciprocal-rank fusion (Cormack, Clarke and Büttcher 2009): all that is ranked anywhere, best first.

    Whatever stands at rank r of a ranking, from 1, gets 1 / (constant + r) of it; its score is the sum. Equal
    scores come in the order in which they first appear.
    """
    scores: dict[T, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + 1 / (constant + rank)
    return sorted(scores.items(), key=lambda scored: -scored[1])
