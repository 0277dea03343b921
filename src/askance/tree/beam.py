"""Beam search over states that grow step by step, all states of a step side by side.

Where a state's whole score takes work to know, and a bound of it does not, that work is done for those alone
that may be among the best: branch and bound (Land and Doig 1960). What is found is the same.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from askance.tree.abreast import Together, abreast

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rules(Generic[S]):
    """What a search needs to know of its states.

    Attributes:
        grow: the states one step on; a state that can't grow gives itself, finished, or nothing.
        score: greater is better. Of a state that is not settled it is the most that it can be.
        is_finished: it grows no more.
        identity: of two states with the same one the better is kept, the earlier where they are equal.
        is_settled: whether its score is known.
        settle: the state once it is; it stays finished or open, and the same by `identity`.
        drop: told of a state that is never settled, since others are better whatever its score is.
        together: how the states of a step are grown and settled.
    """

    grow: Callable[[S], Awaitable[Sequence[S]]]
    score: Callable[[S], float]
    is_finished: Callable[[S], bool]
    identity: Callable[[S], Hashable]
    is_settled: Callable[[S], bool]
    settle: Callable[[S], Awaitable[S]]
    drop: Callable[[S], None]
    together: Together = abreast


async def beam_search(start: S, rules: Rules[S], *, width: int, max_steps: int) -> tuple[list[S], list[S]]:
    """Grow `start` for at most `max_steps`, and after each keep the `width` best that are not finished.

    It ends early when nothing is left to grow, or when `width` are finished and none of those left is better
    than the best of them. Ties go to the earlier state: results never depend on timing.

    Returns:
        The finished states and the open ones, each in the order in which they came about.
    """
    finished, beam = ([start], []) if rules.is_finished(start) else ([], [start])
    for _ in range(max_steps):
        if not beam:
            break
        grown = await rules.together(rules.grow(state) for state in beam)
        states = [state for each in grown for state in each]
        more, beam = await _settled(states, rules, width)
        finished += more
        best_open = max(map(rules.score, beam), default=float("-inf"))
        if len(finished) >= width and max(map(rules.score, finished)) >= best_open:
            break
    return finished, beam


async def _settled(states: list[S], rules: Rules[S], width: int) -> tuple[list[S], list[S]]:
    """The finished of some states, and the `width` best of the others, once the scores of these are known."""
    while True:
        best: dict[Hashable, int] = {}
        for at, state in enumerate(states):
            twin = best.setdefault(rules.identity(state), at)
            if rules.score(state) > rules.score(states[twin]):
                best[rules.identity(state)] = at
        places = sorted(best.values())
        finished = [at for at in places if rules.is_finished(states[at])]
        left = [at for at in places if at not in finished]
        beam = sorted(left, key=lambda at: rules.score(states[at]), reverse=True)[:width]
        unknown = [at for at in (*finished, *beam) if not rules.is_settled(states[at])]
        if not unknown:
            break
        settled = await rules.together(rules.settle(states[at]) for at in unknown)
        for at, state in zip(unknown, settled, strict=True):
            states[at] = state
    for state in states:
        if not rules.is_settled(state):
            rules.drop(state)
    return [states[at] for at in finished], [states[at] for at in sorted(beam)]
