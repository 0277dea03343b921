"""Turn scored passages into ranked hits: ties, exclusions and ranks, the same for every scoring function."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from askance.core.errors import InputError
from askance.core.types import Hit, Passage

A = TypeVar("A")

_MAX_TIES = 1000
_MIN_STEPS_FOR_THREAD = 3_000_000
"""The number of steps (about a millisecond of work) below which a thread costs more than it saves."""


async def best_hits(
    find: Callable[[int], Iterable[tuple[float, A]]],
    passage_at: Callable[[A], Passage],
    k: int,
    exclude: frozenset[str],
    num_all: int,
    steps_each: int,
) -> tuple[Hit, ...]:
    """Return the `k` best hits, sorted by score (to six significant digits), then by passage id.

    Up to 1,000 passages that tie with the last hit are considered.

    Args:
        find: Returns the scores and addresses of the n best passages, best first, given n.
        passage_at: Returns the passage at an address.
        num_all: The number of searchable passages.
        steps_each: The number of steps needed to compare the query with one passage.
    """

    def search() -> tuple[Hit, ...]:
        num_best = min(k + len(exclude), num_all)
        if num_best < 1:
            return ()
        for num_wanted in (num_best + 1, num_best + _MAX_TIES):
            # The last bits of a sum depend on the order, so six significant digits are kept.
            best = [(float(f"{score:.6g}"), address) for score, address in find(num_wanted)]
            if len(best) < num_wanted or best[-1][0] < best[num_best - 1][0]:
                break
        worst = min((score for score, _ in best[:num_best]), default=0.0)
        return rank_hits(
            [(score, passage_at(address)) for score, address in best if score >= worst], k, exclude
        )

    return await asyncio.to_thread(search) if num_all * steps_each >= _MIN_STEPS_FOR_THREAD else search()


def check_k(k: int) -> None:
    """Raise InputError unless `k` is at least 1."""
    if k < 1:
        raise InputError(f"k={k}: ask for at least 1 passage.")


def rank_hits(
    scored: Iterable[tuple[float, Passage]], k: int, exclude: frozenset[str] = frozenset()
) -> tuple[Hit, ...]:
    """Return at most `k` hits, best first, without the passages in `exclude`.

    Ties are broken by passage id.
    """
    allowed = [(score, passage) for score, passage in scored if passage.id not in exclude]
    best = sorted(allowed, key=lambda scored: (-scored[0], scored[1].id))[:k]
    return tuple(Hit(passage, score, rank) for rank, (score, passage) in enumerate(best, start=1))


def hits_in_order(
    scored: Iterable[tuple[float | None, Passage]], k: int, exclude: frozenset[str]
) -> tuple[Hit, ...]:
    """Return at most `k` hits in the order of `scored`, without the passages in `exclude`.

    They keep their scores if all have one and none is greater than the one before it. Otherwise the scores
    are 1, 1/2, 1/3 and so on: distances and missing scores only rank.
    """
    ranked = list(scored)
    scores = [score for score, _ in ranked if score is not None]
    is_own = len(scores) == len(ranked) and scores == sorted(scores, reverse=True)
    kept = [each for each in ranked if each[1].id not in exclude][:k]
    return tuple(
        Hit(passage, score if is_own and score is not None else 1 / rank, rank)
        for rank, (score, passage) in enumerate(kept, start=1)
    )
