"""What a path of AirRAG asks next, begun while the plan that leads to it is still being written.

A query is known once its line is complete. Where its answer comes next, its search, the reading of its
passages and the answer itself do not wait for the lines behind it. What is asked stays the same.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from askance.core.types import Watch
from askance.methods.airrag.state import RA, State

T = TypeVar("T")


class Ahead(Generic[T]):
    """Answers begun ahead, by the place in the tree where they are looked for, and the query."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, str], asyncio.Task[T]] = {}

    def begin(self, node: str, query: str, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Once for each place."""
        if all(place != node for place, _ in self._begun):
            self._begun[node, query] = asyncio.ensure_future(work())

    def take(self, node: str, query: str) -> asyncio.Task[T] | None:
        """What was begun there for that query."""
        return self._begun.get((node, query))

    async def close(self) -> None:
        """Stop what nobody has waited for."""
        for task in self._begun.values():
            task.cancel()
        await asyncio.gather(*self._begun.values(), return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Next:
    """The place that a drawn state will have, and the action that its rollout would take from there."""

    node: str
    action: Callable[[State], str]


def watching(following: Next, state_of: Callable[[str], State], begin: Callable[[State], None]) -> Watch:
    """Sees a plan as it is written, and calls `begin` with the state that its first lines lead to.

    Only where that state has queries of its own and its rollout goes on with the answer to the first.

    Args:
        state_of: the state that a plan of these lines leads to.
    """
    context, written = copy_context(), ""

    def watch(text: str) -> None:
        nonlocal written
        written += text
        if "\n" not in text:
            return
        state = state_of(written[: written.rindex("\n")])
        if state.steps[-1].said and state.pending and following.action(state) == RA:
            context.run(begin, state)

    return watch
