"""A search and the decision to make it, as several methods have them."""

from collections.abc import Awaitable, Callable, Sequence

from askance.core.ports import Run
from askance.core.types import Hit


async def search_for(query: str, run: Run, k: int, why: str) -> tuple[Hit, ...]:
    """The `k` best passages for `query`; `why` is the decision in the trace."""
    decision = run.trace.decide("retrieve", "search", why, query=query)
    with run.trace.because(decision):
        return await run.retriever.search(query, k)


FIRST = 100
"""Passages that a search for as many as fit begins with."""
_MORE = 1.25
"""Times as many as fit on average are searched for again, since some are shorter than others."""


async def search_as_fits(
    search: Callable[[int], Awaitable[tuple[Hit, ...]]],
    num_fitting: Callable[[Sequence[Hit]], int],
    most: int | None,
) -> tuple[Hit, ...]:
    """At least as many passages as there is room for, as far as there are so many.

    How long passages are shows only once some are found. So the first search is for 100; where it finds as
    many and there is room for more, a second one follows.

    Args:
        search: finds so many passages.
        num_fitting: how many there is room for, if all are as long as those found.
        most: of them; None is no limit.
    """
    first = FIRST if most is None else min(FIRST, most)
    hits = await search(first)
    wanted = num_fitting(hits)
    if len(hits) < first or wanted <= first or first == most:
        return hits
    return await search(int(_MORE * wanted) if most is None else min(int(_MORE * wanted), most))


def num_in_room(hits: Sequence[Hit], room: float, count: Callable[[Sequence[Hit]], int]) -> int:
    """How many passages as long as `hits` go into `room` tokens; at least one, and none where none is found.

    Args:
        count: the tokens of a prompt with passages.
    """
    if not hits:
        return 0
    of_one = max(1.0, (count(hits) - count(())) / len(hits))
    return max(1, int(room / of_one))
