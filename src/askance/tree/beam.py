"""Beam search over states that grow step by step, all states of a step side by side."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from askance.tree.abreast import abreast

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rules(Generic[S]):
    """What a search needs to know of its states.

    Attributes:
        grow: the states one step on; a state that can't grow gives itself, finished, or nothing.
        score: greater is better.
        is_finished: it grows no more.
        identity: of two states with the same one the better is kept, the earlier where they are equal.
    """

    grow: Callable[[S], Awaitable[Sequence[S]]]
    score: Callable[[S], float]
    is_finished: Callable[[S], bool]
    identity: Callable[[S], Hashable]


@dataclass(frozen=True, slots=True)
class Found(Generic[S]):
    """States in the order in which they came about."""

    finished: tuple[S, ...]
    open: tuple[S, ...]
    num_steps: int


async def beam_search(start: S, rules: Rules[S], *, width: int, max_steps: int) -> Found[S]:
    """Grow `start` for at most `max_steps`, and after each keep the `width` best that are not finished.

    It ends early when nothing is left to grow, or when `width` are finished and none of those left is better
    than the best of them. Ties go to the earlier state: results never depend on timing.
    """
    finished: list[S] = [start] if rules.is_finished(start) else []
    open_states: list[S] = [] if finished else [start]
    step = 0
    while open_states and step < max_steps:
        step += 1
        grown = await abreast(rules.grow(state) for state in open_states)
        states = _merged((state for each in grown for state in each), rules)
        finished += [state for state in states if rules.is_finished(state)]
        left = [state for state in states if not rules.is_finished(state)]
        kept = sorted(left, key=rules.score, reverse=True)[:width]
        open_states = [state for state in left if any(state is each for each in kept)]
        if len(finished) >= width and _best(finished, rules) >= _best(open_states, rules):
            break
    return Found(tuple(finished), tuple(open_states), step)


def _merged(states: Iterable[S], rules: Rules[S]) -> list[S]:
    found: dict[Hashable, S] = {}
    for state in states:
        key = rules.identity(state)
        if key not in found or rules.score(state) > rules.score(found[key]):
            found[key] = state
    return list(found.values())


def _best(states: Iterable[S], rules: Rules[S]) -> float:
    return max(map(rules.score, states), default=float("-inf"))
