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
