"""Monte Carlo tree search over states that grow by actions, several rollouts at a time.

A rollout selects a path by UCT, goes on from its end until a state is terminal, and pays the terminal's
reward to every node on the way. What an action gives is drawn by a coroutine, perhaps as several outcomes at
once. Rollouts of a wave run side by side, and each is selected as if those before it had earned nothing: the
tree that comes out never depends on which of them was done first. State is kept per call.
"""

import math
import random
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from askance.core.concurrency import gather_or_cancel
from askance.methods.airrag.parameters import AirragParameters

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class RolloutOutcome(Generic[S]):
    """A state that an action led to; `votes` of the samples drawn were this one."""

    state: S
    votes: int = 1


@dataclass(slots=True, eq=False)
class Node(Generic[S]):
    """A state in the tree.

    Attributes:
        action: what led here from `parent`; empty at the root.
        number: its place among the children of its parent, from 1.
        votes: see `RolloutOutcome`.
        dead: actions that gave nothing.
        postponed: actions that could not be drawn for in this wave; in the next they are untried again.
        visits: rollouts that came through.
        value: the sum of their rewards.
        reward: of a terminal, as it was last computed.
        num_paid: rollouts that earned it.
        is_taken: a rollout goes on from here. Only one of a wave may, so that what it finds does not depend
            on what others do meanwhile.
    """

    state: S
    action: str = ""
    parent: "Node[S] | None" = None
    number: int = 1
    votes: int = 1
    is_terminal: bool = False
    dead: set[str] = field(default_factory=set)
    postponed: set[str] = field(default_factory=set)
    children: list["Node[S]"] = field(default_factory=list)
    visits: int = 0
    value: float = 0.0
    reward: float = 0.0
    num_paid: int = 0
    is_taken: bool = False

    @property
    def path(self) -> tuple["Node[S]", ...]:
        """The nodes from the root to this one."""
        return (*self.parent.path, self) if self.parent else (self,)

    @property
    def name(self) -> str:
        """The numbers along the path, joined by dots behind "0"."""
        return ".".join(["0", *(str(node.number) for node in self.path[1:])])

    def uct(self, exploration: float) -> float:
        """Mean reward, and a bonus for what was visited rarely. Infinite where nobody was."""
        if not self.visits or self.parent is None:
            return math.inf
        bonus = math.sqrt(math.log(self.parent.visits) / self.visits)
        return self.value / self.visits + exploration * bonus

    def below(self) -> Iterator["Node[S]"]:
        """This node and all under it, each before its children."""
        yield self
        for child in self.children:
            yield from child.below()


class Rules(Protocol[S]):
    """What a search needs to know.

    - actions: those legal in a state where some were tried in vain, the first preferred; none where it is a
      dead end. Asked again when one was in vain.
    - draw: the outcomes of an action at a node in a rollout, each different from the others; none where it
      gives nothing; None where the rollout can't draw for it, but a later one perhaps can.
    - is_terminal: whether a rollout ends in a state.
    - choose: the action that a rollout takes at a node while it goes on, out of those untried.
    - rewards: of terminals, in the order in which they were first reached; all are asked for after each
      rollout, since those found later may change what the earlier are worth.
    - may_start: whether there is still room for a rollout; asked right before one starts.
    - ended: told of each rollout that is over, in the order of their numbers.
    - is_settled: whether no further rollouts are wanted; asked before each wave but the first.
    """

    def actions(self, state: S, dead: frozenset[str], /) -> Sequence[str]: ...
    async def draw(
        self, node: Node[S], action: str, rollout: int, /
    ) -> Sequence[RolloutOutcome[S]] | None: ...
    def is_terminal(self, state: S, /) -> bool: ...
    def choose(self, node: Node[S], untried: Sequence[str], rollout: int, /) -> str: ...
    def rewards(self, terminals: Sequence[Node[S]], /) -> Sequence[float]: ...
    def may_start(self, rollout: int, /) -> bool: ...
    def ended(self, rollout: int, /) -> None: ...
    def is_settled(self, tree: "Tree[S]", /) -> bool: ...


Way = tuple[list[Node[S]], str]
"""A path from the root, and the action to draw for at its end; empty where the rollout chooses."""


class Tree(Generic[S]):
    """One search, and what it found.

    Args:
        seed: of what is random.
        beside: actions at the root that lead to terminals only. They are drawn for once, beside the first
            rollouts, and what they give is rewarded as if a rollout had come to each. No rollout takes them.

    Attributes:
        terminals: reached by rollouts, in the order of the first time.
        num_rollouts: that were started.
        num_failed: of them, those that ended nowhere.
    """

    def __init__(
        self,
        start: S,
        rules: Rules[S],
        parameters: AirragParameters,
        seed: str = "",
        beside: Sequence[str] = (),
    ) -> None:
        self._rules, self._parameters, self._seed, self._beside = rules, parameters, seed, beside
        self.root = Node(start, is_terminal=rules.is_terminal(start))
        self.terminals = list[Node[S]]()
        self.num_rollouts = self.num_failed = 0

    async def grow(self) -> None:
        """Search from the root; ends early once nothing new can be found, or where no rollout may start."""
        beside = self._beside
        while wave := list(self._wave()):
            first = self.num_rollouts - len(wave)
            work: list[Awaitable[list[Any]]] = [
                gather_or_cancel(self._go_on(*way, rollout) for rollout, way in enumerate(wave, start=first)),
                gather_or_cancel(self._rules.draw(self.root, action, 0) for action in beside),
            ]
            ends, drawn = await gather_or_cancel(work)
            for rollout, ((path, _), end) in enumerate(zip(wave, ends, strict=True), start=first):
                self._rules.ended(rollout)
                self._pay(path, end)
            for action, outcomes in zip(beside, drawn, strict=True):
                for node in self._add(self.root, action, outcomes):
                    self._pay(self._visit([self.root, node]), node)
            beside = ()
            for node in self.root.below():
                node.postponed.clear()

    def _wave(self) -> Iterator[Way[S]]:
        """Where the rollouts that start now go on from."""
        num_begun = self.num_rollouts
        if 0 < num_begun < self._parameters.rollouts and self._rules.is_settled(self):
            return
        for _ in range(self._parameters.wave):
            rollout = self.num_rollouts
            if rollout >= self._parameters.rollouts or not self._rules.may_start(rollout):
                return
            way = self._select(self.root, rollout)
            if way is None:
                return
            self.num_rollouts += 1
            self._visit(way[0])[-1].is_taken = True
            yield way

    def _select(self, node: Node[S], rollout: int) -> Way[S] | None:
        """The way to the next place to go on from; None where all is exhausted or being drawn for."""
        if node.is_terminal:
            return ([node], "") if not self._parameters.skip_exhausted or not node.visits else None
        untried = [] if node.is_taken else self._untried(node)
        if untried and node.parent and not node.visits:
            return [node], ""
        order = list(self._rules.actions(node.state, frozenset(node.dead)))
        fresh: list[tuple[str, int, Way[S]]] = [(action, 0, ([node], action)) for action in untried]
        weight = self._parameters.weight(rollout)
        for child in sorted(node.children, key=lambda each: each.uct(weight), reverse=True):
            if fresh and child.visits:
                break
            way = None if self._is_beside(child) else self._select(child, rollout)
            if way is None:
                continue
            below = [node, *way[0]], way[1]
            if child.visits:
                return below
            fresh.append((child.action, child.number, below))
        if not fresh:
            return None
        if self._parameters.unexplored == "random":
            return random.Random(f"{self._seed} select {rollout} {node.name}").choice(fresh)[2]
        return min(fresh, key=lambda each: ((*order, each[0]).index(each[0]), each[1]))[2]

    def _untried(self, node: Node[S]) -> list[str]:
        """What may be drawn for; where an action was in vain, another may have become legal."""
        in_vain = node.dead | node.postponed
        tried = in_vain | {child.action for child in node.children}
        if node is self.root:
            tried |= set(self._beside)
        legal = () if node.is_terminal else self._rules.actions(node.state, frozenset(in_vain))
        return [action for action in legal if action not in tried]

    def _is_beside(self, node: Node[S]) -> bool:
        return node.parent is self.root and node.action in self._beside

    async def _go_on(self, path: list[Node[S]], action: str, rollout: int) -> Node[S] | None:
        """The terminal that a rollout reaches from the end of `path`, which grows with it, or None."""
        taken = path[-1]
        while not path[-1].is_terminal:
            untried = self._untried(path[-1])
            if not untried:
                break
            action = action or self._rules.choose(path[-1], untried, rollout)
            entered = await self._drawn(path[-1], action, rollout)
            path += self._visit([entered]) if entered else []
            action = ""
        taken.is_taken = False
        return path[-1] if path[-1].is_terminal else None

    async def _drawn(self, node: Node[S], action: str, rollout: int) -> Node[S] | None:
        """Draw for `action`, or for all of a node at once; the child that is entered, if there is one.

        Where `action` itself gave nothing, the rollout takes another one of those that gave something.
        """
        actions = [action]
        if self._parameters.expansion == "eager":
            actions += [each for each in self._untried(node) if each != action]
        found = await self._parameters.together(self._rules.draw(node, each, rollout) for each in actions)
        added = {each: self._add(node, each, outcomes) for each, outcomes in zip(actions, found, strict=True)}
        live = [each for each in actions if added[each]]
        if not live:
            return None
        children = added[action if action in live else self._rules.choose(node, live, rollout)]
        if len(children) > 1 and self._parameters.unexplored == "random":
            return random.Random(f"{self._seed} enter {rollout} {node.name}").choice(children)
        return children[0]

    def _add(self, node: Node[S], action: str, outcomes: Sequence[RolloutOutcome[S]] | None) -> list[Node[S]]:
        if outcomes is None:
            node.postponed.add(action)
        elif not outcomes:
            node.dead.add(action)
        children = [
            Node(each.state, action, node, number, each.votes, self._rules.is_terminal(each.state))
            for number, each in enumerate(outcomes or (), start=len(node.children) + 1)
        ]
        node.children += children
        return children

    def _visit(self, path: list[Node[S]]) -> list[Node[S]]:
        for node in path:
            node.visits += 1
        return path

    def _pay(self, path: Sequence[Node[S]], end: Node[S] | None) -> None:
        """Count a rollout's end, and bring every reward that it changes up to date, up to the root."""
        if end is None:
            self.num_failed += 1
            for node in path:
                node.visits -= 1
            return
        if not end.num_paid:
            self.terminals.append(end)
        end.num_paid += 1
        _add_value(end, end.reward)
        for terminal, reward in zip(self.terminals, self._rules.rewards(self.terminals), strict=True):
            _add_value(terminal, terminal.num_paid * (reward - terminal.reward))
            terminal.reward = reward


def _add_value(node: Node[Any], value: float) -> None:
    for each in node.path:
        each.value += value
