"""Beam search over states that grow step by step, all states of a step side by side.

Where a state's whole score takes work to know, and a bound of it does not, that work is done for those alone
that may be among the best: branch and bound (Land and Doig 1960). What is found is the same.
"""

from collections import Counter
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
        score: greater is better. Of a state that is not settled it is the most that it can be.
        is_finished: it grows no more.
        identity: of two states with the same one the better is kept, the earlier where they are equal.
        is_settled: whether its score is known.
        settle: the state once it is; it stays finished or open, and the same by `identity`.
        drop: told of a state that is never settled, and of the least score in the beam it falls out of.
    """

    grow: Callable[[S], Awaitable[Sequence[S]]]
    score: Callable[[S], float]
    is_finished: Callable[[S], bool]
    identity: Callable[[S], Hashable]
    is_settled: Callable[[S], bool] = lambda state: True
    settle: Callable[[S], Awaitable[S]] | None = None
    drop: Callable[[S, float], None] = lambda state, least: None


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
        states = _merged(await _settled([state for each in grown for state in each], rules, width), rules)
        finished += [state for state in states if rules.is_finished(state)]
        left = [state for state in states if not rules.is_finished(state)]
        kept = sorted(left, key=rules.score, reverse=True)[:width]
        open_states = [state for state in left if any(state is each for each in kept)]
        if len(finished) >= width and _best(finished, rules) >= _best(open_states, rules):
            break
    return Found(tuple(finished), tuple(open_states), step)


async def _settled(states: Sequence[S], rules: Rules[S], width: int) -> list[S]:
    """The states, settled, without those that can't be among the `width` best open ones.

    In two rounds, whose work never depends on timing: those with the greatest bounds, and with them whatever
    bounds tell nothing about (what is finished, and what may be merged); then all that may still be better
    than the `width`-th of these.
    """
    settle = rules.settle
    if settle is None or all(map(rules.is_settled, states)):
        return list(states)
    found: dict[int, S] = {at: state for at, state in enumerate(states) if rules.is_settled(state)}

    async def settle_all(places: Sequence[int]) -> None:
        found.update(zip(places, await abreast(settle(states[at]) for at in places), strict=True))

    same = Counter(map(rules.identity, states))
    left = [at for at in range(len(states)) if at not in found]
    bounded = [
        at for at in left if not rules.is_finished(states[at]) and same[rules.identity(states[at])] == 1
    ]
    best = sorted(bounded, key=lambda at: rules.score(states[at]), reverse=True)[:width]
    await settle_all([at for at in left if at not in bounded or at in best])
    known = _merged((found[at] for at in sorted(found)), rules)
    scores = sorted((rules.score(state) for state in known if not rules.is_finished(state)), reverse=True)
    least = scores[width - 1] if len(scores) >= width else float("-inf")
    left = [at for at in bounded if at not in best]
    await settle_all([at for at in left if rules.score(states[at]) >= least])
    for at in left:
        if at not in found:
            rules.drop(states[at], least)
    return [found[at] for at in sorted(found)]


def _merged(states: Iterable[S], rules: Rules[S]) -> list[S]:
    found: dict[Hashable, S] = {}
    for state in states:
        key = rules.identity(state)
        if key not in found or rules.score(state) > rules.score(found[key]):
            found[key] = state
    return list(found.values())


def _best(states: Iterable[S], rules: Rules[S]) -> float:
    return max(map(rules.score, states), default=float("-inf"))
