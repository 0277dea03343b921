"""Monte Carlo tree search over states that grow by actions, several rollouts at a time.

A rollout selects a path by UCT, goes on from its end until a state is terminal, and pays the terminal's
reward to every node on the way. What an action gives is drawn by a coroutine, perhaps as several outcomes at
once. Rollouts of a wave run side by side, and each is selected as if those before it had earned nothing: the
tree that comes out never depends on which of them was done first. State is kept per call.
"""

import math
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal

from askance.tree.abreast import abreast
from askance.tree.nodes import A, Node, Outcome, S, Tree

Draw = Callable[[Node[S, A], A, int], Awaitable[Sequence[Outcome[S]] | None]]
Choose = Callable[[Node[S, A], Sequence[A], int], A]


@dataclass(frozen=True, slots=True)
class Rules(Generic[S, A]):
    """What a search needs to know.

    Attributes:
        actions: those legal in a state where some were tried in vain, the first preferred; none where it is
            a dead end. Asked again when one was in vain.
        draw: the outcomes of an action at a node in a rollout, each different from the others; none where it
            gives nothing; None where the rollout can't draw for it, but a later one perhaps can.
        is_terminal: whether a rollout ends in a state.
        choose: the action that a rollout takes at a node while it goes on, out of those untried.
        rewards: of terminals, in the order in which they were first reached; all are asked for after each
            rollout, since those found later may change what the earlier are worth.
        may_start: whether there is still room for a rollout; asked right before one starts.
        ended: told of each rollout that is over, in the order of their numbers.
        is_settled: whether no further rollouts are wanted; asked before each wave but the first.
        beside: actions at the root that lead to terminals only. They are drawn for once, beside the first
            rollouts, and what they give is rewarded as if a rollout had come to each. No rollout takes them.
    """

    actions: Callable[[S, frozenset[A]], Sequence[A]]
    draw: Draw[S, A]
    is_terminal: Callable[[S], bool]
    choose: Choose[S, A]
    rewards: Callable[[Sequence[Node[S, A]]], Sequence[float]]
    may_start: Callable[[int], bool] = lambda rollout: True
    ended: Callable[[int], None] = lambda rollout: None
    is_settled: Callable[[Tree[S, A]], bool] = lambda tree: False
    beside: Sequence[A] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """How a search goes about it.

    Attributes:
        rollouts: how many, at most.
        wave: how many of them run side by side.
        exploration: the weight of the bonus in UCT.
        schedule: how that weight falls from the first rollout to the last.
        expansion: "lazy" draws for an action when a rollout takes it, "eager" for all when a node is reached.
        revisits: whether a terminal may be visited again, and is rewarded again.
        draws_abreast: whether what an eager expansion draws for is drawn side by side.
        unexplored: which of several nodes that nobody visited comes first.
        seed: of what is random.
    """

    rollouts: int
    wave: int = 4
    exploration: float = 2.0
    schedule: Literal["constant", "linear", "exponential"] = "constant"
    expansion: Literal["lazy", "eager"] = "lazy"
    revisits: bool = False
    draws_abreast: bool = False
    unexplored: Literal["first", "random"] = "first"
    seed: str = ""

    def weight(self, rollout: int) -> float:
        """The weight of the bonus in a rollout."""
        done = rollout / self.rollouts
        factors = {"constant": 1.0, "linear": 1 - 0.9 * done, "exponential": math.pow(0.1, done)}
        return self.exploration * factors[self.schedule]


async def search(start: S, rules: Rules[S, A], settings: Settings) -> Tree[S, A]:
    """Search from `start`; ends early once nothing new can be found, or where no rollout may start."""
    return await _Search(start, rules, settings).run()


class _Search(Generic[S, A]):
    """One search while it runs."""

    def __init__(self, start: S, rules: Rules[S, A], settings: Settings) -> None:
        self._rules, self._settings = rules, settings
        self._tree: Tree[S, A] = Tree(self._node(start))
        self._postponing: list[Node[S, A]] = []

    async def run(self) -> Tree[S, A]:
        tree, settings = self._tree, self._settings
        beside = self._rules.beside
        while tree.num_rollouts < settings.rollouts:
            if tree.num_rollouts and self._rules.is_settled(tree):
                break
            wave = list(self._wave())
            if not wave:
                break
            work: list[Awaitable[list[Any]]] = [abreast(self._go_on(*each) for each in wave)]
            work.append(abreast(self._rules.draw(tree.root, action, 0) for action in beside))
            ends, drawn = await abreast(work)
            for (path, _, rollout), end in zip(wave, ends, strict=True):
                self._rules.ended(rollout)
                self._pay(path, end)
            for action, outcomes in zip(beside, drawn, strict=True):
                self._pay_beside(action, outcomes or ())
            beside = ()
            for node in self._postponing:
                node.postponed.clear()
                self._refresh(node)
            self._postponing.clear()
        return tree

    def _wave(self) -> Iterator[tuple[list[Node[S, A]], A | None, int]]:
        """The rollouts that start now: path, the action to draw for at its end, number of the rollout."""
        for _ in range(self._settings.wave):
            rollout = self._tree.num_rollouts
            if rollout >= self._settings.rollouts or not self._rules.may_start(rollout):
                return
            found = self._select(self._tree.root, rollout)
            if found is None:
                return
            path, action = found
            self._tree.num_rollouts += 1
            for node in path:
                node.visits += 1
            path[-1].is_taken = True
            yield path, action, rollout

    def _select(self, node: Node[S, A], rollout: int) -> tuple[list[Node[S, A]], A | None] | None:
        """The path to the next place to go on from; None where all is exhausted or being drawn for."""
        if node.is_terminal:
            return ([node], None) if self._settings.revisits or not node.visits else None
        fresh: list[Node[S, A] | A] = [
            child for child in node.children if not child.visits and not child.is_exhausted
        ]
        if not node.is_taken:
            self._refresh(node)
            fresh += node.untried
        if fresh:
            order = self._rules.actions(node.state, frozenset(node.dead))
            place: dict[A | None, int] = {action: at for at, action in enumerate(order)}
            first = min(fresh, key=lambda each: _place(each, place))
            if self._settings.unexplored == "random":
                first = random.Random(f"{self._settings.seed} select {rollout} {node.name}").choice(fresh)
            if isinstance(first, Node):
                return [node, first], None
            node.untried.remove(first)
            return [node], first
        weight = self._settings.weight(rollout)
        for child in sorted(node.children, key=lambda each: each.uct(weight), reverse=True):
            if self._is_beside(child):
                continue
            if self._settings.revisits or not child.is_exhausted:
                below = self._select(child, rollout)
                if below is not None:
                    return [node, *below[0]], below[1]
        return None

    def _is_beside(self, node: Node[S, A]) -> bool:
        return node.parent is self._tree.root and node.action in self._rules.beside

    async def _go_on(self, path: list[Node[S, A]], action: A | None, rollout: int) -> Node[S, A] | None:
        """The terminal that a rollout reaches from the end of `path`, which grows with it, or None."""
        node = taken = path[-1]
        if action is not None:
            entered = await self._drawn(node, action, rollout)
            node = self._enter(path, entered) if entered else node
        while not node.is_terminal:
            self._refresh(node)
            if not node.untried:
                taken.is_taken = False
                return None
            action = self._rules.choose(node, tuple(node.untried), rollout)
            node.untried.remove(action)
            entered = await self._drawn(node, action, rollout)
            node = self._enter(path, entered) if entered else node
        taken.is_taken = False
        return node

    async def _drawn(self, node: Node[S, A], action: A, rollout: int) -> Node[S, A] | None:
        """Draw for `action`, or for all of a node at once; the child that is entered, if there is one.

        Where `action` itself gave nothing, the rollout takes another one of those that gave something.
        """
        actions = [action]
        if self._settings.expansion == "eager":
            actions += node.untried
            node.untried = []
        if self._settings.draws_abreast:
            found = await abreast(self._rules.draw(node, each, rollout) for each in actions)
        else:  # one after the other, since they spend what the rollout may spend
            found = [await self._rules.draw(node, each, rollout) for each in actions]
        added = {each: self._add(node, each, outcomes) for each, outcomes in zip(actions, found, strict=True)}
        live = [each for each in actions if added[each]]
        if not live:
            return None
        taken = action if action in live else self._rules.choose(node, live, rollout)
        children = added[taken]
        if len(children) > 1 and self._settings.unexplored == "random":
            return random.Random(f"{self._settings.seed} enter {rollout} {node.name}").choice(children)
        return children[0]

    def _add(self, node: Node[S, A], action: A, outcomes: Sequence[Outcome[S]] | None) -> list[Node[S, A]]:
        if outcomes is None:
            node.postponed.add(action)
            self._postponing.append(node)
            return []
        if not outcomes:
            node.dead.add(action)
        children = [
            self._node(each.state, action, node, len(node.children) + number, each.votes)
            for number, each in enumerate(outcomes, start=1)
        ]
        node.children += children
        return children

    def _refresh(self, node: Node[S, A]) -> None:
        """Where an action was in vain, another may have become legal."""
        in_vain = node.dead | node.postponed
        tried = in_vain | {child.action for child in node.children}
        if node is self._tree.root:
            tried |= set(self._rules.beside)
        legal = self._rules.actions(node.state, frozenset(in_vain))
        node.untried = [action for action in legal if action not in tried]

    def _node(
        self,
        state: S,
        action: A | None = None,
        parent: Node[S, A] | None = None,
        number: int = 1,
        votes: int = 1,
    ) -> Node[S, A]:
        is_terminal = self._rules.is_terminal(state)
        untried = [] if is_terminal else list(self._rules.actions(state, frozenset()))
        return Node(state, action, parent, number, votes, untried, is_terminal=is_terminal)

    def _enter(self, path: list[Node[S, A]], node: Node[S, A]) -> Node[S, A]:
        node.visits += 1
        path.append(node)
        return node

    def _pay(self, path: Sequence[Node[S, A]], end: Node[S, A] | None) -> None:
        """Count a rollout's end, and bring every reward that it changes up to date, up to the root."""
        tree = self._tree
        if end is None:
            tree.num_failed += 1
            for node in path:
                node.visits -= 1
            return
        if not end.num_paid:
            tree.terminals.append(end)
        end.num_paid += 1
        _add_value(end, end.reward)
        for terminal, reward in zip(tree.terminals, self._rules.rewards(tree.terminals), strict=True):
            _add_value(terminal, terminal.num_paid * (reward - terminal.reward))
            terminal.reward = reward

    def _pay_beside(self, action: A, outcomes: Sequence[Outcome[S]]) -> None:
        root = self._tree.root
        for node in self._add(root, action, outcomes):
            path = [root]
            root.visits += 1
            self._enter(path, node)
            self._pay(path, node)


def _add_value(node: Node[S, A], value: float) -> None:
    for each in node.path:
        each.value += value


def _place(each: "Node[Any, A] | A", place: Mapping[A | None, int]) -> tuple[int, int]:
    if isinstance(each, Node):
        return place.get(each.action, len(place)), each.number
    return place.get(each, len(place)), 0
