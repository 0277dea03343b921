"""From scored passages to hits: ties, what is excluded, and ranks, the same for every way to score."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from askance.core.errors import InputError
from askance.core.types import Hit, Passage

A = TypeVar("A")

_MAX_TIES = 1000
_MIN_STEPS_FOR_THREAD = 3_000_000
"""Below this (about a millisecond of work) a thread costs more than it frees."""


async def best_hits(
    find: Callable[[int], Iterable[tuple[float, A]]],
    passage_at: Callable[[A], Passage],
    k: int,
    exclude: frozenset[str],
    num_all: int,
    steps_each: int,
) -> tuple[Hit, ...]:
    """The `k` best hits by scores of six digits; of up to 1,000 that tie with the last, those of lowest ids.

    Args:
        find: scores and places of as many of the best as it is asked for, best first.
        passage_at: the passage at a place.
        num_all: how many there are to be found.
        steps_each: how much work it is to compare the query with one of them.
    """

    def search() -> tuple[Hit, ...]:
        num_best = min(k + len(exclude), num_all)
        if num_best < 1:
            return ()
        for num_wanted in (num_best + 1, num_best + _MAX_TIES):
            best = [(six_digits(score), place) for score, place in find(num_wanted)]
            if len(best) < num_wanted or best[-1][0] < best[num_best - 1][0]:
                break
        worst = min((score for score, _ in best[:num_best]), default=0.0)
        return as_hits([(score, passage_at(place)) for score, place in best if score >= worst], k, exclude)

    return await asyncio.to_thread(search) if num_all * steps_each >= _MIN_STEPS_FOR_THREAD else search()


def check_k(k: int) -> None:
    """Raises InputError unless at least one passage is asked for."""
    if k < 1:
        raise InputError(f"k={k}: ask for at least 1 passage.")


def as_hits(
    scored: Iterable[tuple[float, Passage]], k: int, exclude: frozenset[str] = frozenset()
) -> tuple[Hit, ...]:
    """At most `k` hits, best first, equal scores in the order of ids, without passages of `exclude`."""
    left = [(score, passage) for score, passage in scored if passage.id not in exclude]
    found = sorted(left, key=lambda scored: (-scored[0], scored[1].id))[:k]
    return tuple(Hit(passage, score, rank) for rank, (score, passage) in enumerate(found, start=1))


def six_digits(score: float) -> float:
    """The score without its last bits, which depend on the order in which its parts were added."""
    return float(f"{score:.6g}")
