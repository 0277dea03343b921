"""Run Monte Carlo tree search (MCTS) with several rollouts at a time.

A rollout selects a path by UCT, continues from its end until a state is terminal, and backs up the reward to
every node on the path. A coroutine expands an action and may return several outcomes at once. The rollouts of
a wave run concurrently. The path of each rollout is selected as if the earlier rollouts of the wave had a
reward of 0, so the tree never depends on which rollout finishes first. All state is local to one search.
"""

import math
import random
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from askance.core.concurrency import gather_or_cancel
from askance.methods.airrag.parameters import AirragParameters

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class ActionOutcome(Generic[S]):
    """A state that an action led to, with the number of samples that gave this state (`votes`)."""

    state: S
    votes: int = 1


@dataclass(slots=True, eq=False)
class Node(Generic[S]):
    """A state in the search tree, with its statistics.

    Attributes:
        action: The action that led here from `parent`; empty at the root.
        number: The position of this node among the children of its parent, from 1. A root has the position of
            its tree among the trees of the question.
        votes: The number of samples that gave this state (see `ActionOutcome`).
        dead_actions: The actions that had no outcome.
        postponed: The actions that could not be expanded in this wave. The next wave may try them again.
        visits: The number of rollouts that passed through this node.
        value: The sum of the rewards of the rollouts that passed through this node.
        reward: The latest reward, if this node is a terminal.
        num_rewarded: The number of rollouts that ended in this terminal.
        has_pending_rollout: True while a rollout continues from this node. A wave allows only one such
            rollout per node, so that the result of a rollout does not depend on other rollouts.
    """

    state: S
    action: str = ""
    parent: "Node[S] | None" = None
    number: int = 1
    votes: int = 1
    is_terminal: bool = False
    dead_actions: set[str] = field(default_factory=set)
    postponed: set[str] = field(default_factory=set)
    children: list["Node[S]"] = field(default_factory=list)
    visits: int = 0
    value: float = 0.0
    reward: float = 0.0
    num_rewarded: int = 0
    has_pending_rollout: bool = False

    @property
    def path(self) -> tuple["Node[S]", ...]:
        """Return the nodes from the root to this one."""
        return (*self.parent.path, self) if self.parent else (self,)

    @property
    def name(self) -> str:
        """Return the number of the tree from 0, and of each node on the path below its root, with dots."""
        root, *others = self.path
        return ".".join([str(root.number - 1), *(str(node.number) for node in others)])

    @property
    def share(self) -> float:
        """Return the share of the samples drawn with it that gave this state; 1 at the root."""
        siblings = self.parent.children if self.parent else [self]
        return self.votes / sum(each.votes for each in siblings if each.action == self.action)

    @property
    def path_share(self) -> float:
        """Return the product of the shares on the path to this node, without its own."""
        return math.prod(node.share for node in self.path[:-1])

    def uct(self, exploration: float) -> float:
        """Return the UCT value, which is the mean reward plus an exploration bonus.

        The UCT value of the root and of an unvisited node is infinite.
        """
        if not self.visits or self.parent is None:
            return math.inf
        bonus = math.sqrt(math.log(self.parent.visits) / self.visits)
        return self.value / self.visits + exploration * bonus

    def subtree(self) -> Iterator["Node[S]"]:
        """Yield this node and all its descendants, parents before children."""
        yield self
        for child in self.children:
            yield from child.subtree()


class SearchProblem(Protocol[S]):
    """The problem that a tree search explores: legal actions, expansion, rollout policy and rewards.

    - legal_actions: return the legal actions in a state, given its dead actions. The preferred action comes
      first. A dead end has no legal actions. The method is called again after an action turns out to be dead.
    - expand: return the distinct outcomes of an action at a node. An empty list means that the action has no
      outcome. None means that this rollout can't expand the action, but a later rollout may.
    - is_terminal: return whether a state ends a rollout.
    - choose_action: return the untried action that a rollout takes at a node (the rollout policy).
    - rewards: return the rewards of all terminals in the order in which they were first reached. The method
      is called after each rollout, because later terminals may change the rewards of earlier ones.
    - can_start: return whether there is budget for another rollout. The method is called right before a
      rollout starts.
    - on_rollout_end: handle the end of a rollout. The calls follow the order of the rollout numbers.
    - should_stop: return whether the search should end early. The method is called before each wave but the
      first.
    """

    def legal_actions(self, state: S, dead_actions: frozenset[str], /) -> Sequence[str]: ...
    async def expand(
        self, node: Node[S], action: str, rollout: int, /
    ) -> Sequence[ActionOutcome[S]] | None: ...
    def is_terminal(self, state: S, /) -> bool: ...
    def choose_action(self, node: Node[S], untried: Sequence[str], rollout: int, /) -> str: ...
    def rewards(self, terminals: Sequence[Node[S]], /) -> Sequence[float]: ...
    async def can_start(self, rollout: int, /) -> bool: ...
    def on_rollout_end(self, rollout: int, /) -> None: ...
    def should_stop(self, tree: "MctsTree[S]", /) -> bool: ...


Selection = tuple[list[Node[S]], str]
"""A path from the root, and the action to expand at its end; "" if the rollout policy chooses the action."""


class MctsTree(Generic[S]):
    """One tree search and its results.

    Args:
        number: The position of this tree among the trees of the question, from 1.
        side_actions: Actions at the root that lead only to terminals. They are expanded once, concurrently
            with the first rollouts, and rewarded as if one rollout had ended in each outcome. Rollouts never
            take these actions.

    Attributes:
        terminals: The terminals that rollouts reached, in the order in which they were first reached.
        num_rollouts: The number of rollouts that started.
        num_failed: The number of rollouts that reached no terminal.
    """

    def __init__(
        self,
        start: S,
        problem: SearchProblem[S],
        parameters: AirragParameters,
        seed: str = "",
        side_actions: Sequence[str] = (),
        number: int = 1,
    ) -> None:
        self._problem, self._parameters = problem, parameters
        self._seed, self._side_actions = seed, side_actions
        self.root = Node(start, number=number, is_terminal=problem.is_terminal(start))
        self.terminals = list[Node[S]]()
        self.num_rollouts = self.num_failed = 0

    async def search(self) -> None:
        """Search until all rollouts are done, the tree is exhausted, or the problem stops the search."""
        side_actions = self._side_actions
        while wave := [selection async for selection in self._select_wave()]:
            first = self.num_rollouts - len(wave)
            work: list[Awaitable[list[Any]]] = [
                gather_or_cancel(
                    self._roll_out(*selection, rollout) for rollout, selection in enumerate(wave, start=first)
                ),
                gather_or_cancel(self._problem.expand(self.root, action, 0) for action in side_actions),
            ]
            ends, side_outcomes = await gather_or_cancel(work)
            for rollout, ((path, _), end) in enumerate(zip(wave, ends, strict=True), start=first):
                self._problem.on_rollout_end(rollout)
                self._backup(path, end)
            for action, outcomes in zip(side_actions, side_outcomes, strict=True):
                for node in self._add_children(self.root, action, outcomes):
                    self._backup(self._count_visits([self.root, node]), node)
            side_actions = ()
            for node in self.root.subtree():
                node.postponed.clear()

    async def _select_wave(self) -> AsyncIterator[Selection[S]]:
        """Yield a selection for each rollout of the next wave."""
        num_started = self.num_rollouts
        if 0 < num_started < self._parameters.rollouts and self._problem.should_stop(self):
            return
        for _ in range(self._parameters.wave):
            rollout = self.num_rollouts
            if rollout >= self._parameters.rollouts or not await self._problem.can_start(rollout):
                return
            selection = self._select(self.root, rollout)
            if selection is None:
                return
            self.num_rollouts += 1
            self._count_visits(selection[0])[-1].has_pending_rollout = True
            yield selection

    def _select(self, node: Node[S], rollout: int) -> Selection[S] | None:
        """Return what UCT selects at or below `node`, or None if all nodes there are exhausted or pending."""
        if node.is_terminal:
            return ([node], "") if not self._parameters.skip_exhausted or not node.visits else None
        untried = [] if node.has_pending_rollout else self._untried_actions(node)
        if untried and node.parent and not node.visits:
            return [node], ""
        order = list(self._problem.legal_actions(node.state, frozenset(node.dead_actions)))
        unvisited: list[tuple[str, int, Selection[S]]] = [(action, 0, ([node], action)) for action in untried]
        weight = self._parameters.weight(rollout)
        for child in sorted(node.children, key=lambda each: each.uct(weight), reverse=True):
            if unvisited and child.visits:
                break
            is_side_action = node is self.root and child.action in self._side_actions
            selection = None if is_side_action else self._select(child, rollout)
            if selection is None:
                continue
            extended = [node, *selection[0]], selection[1]
            if child.visits:
                return extended
            unvisited.append((child.action, child.number, extended))
        if not unvisited:
            return None
        if self._parameters.unexplored == "random":
            return random.Random(f"{self._seed} select {rollout} {node.name}").choice(unvisited)[2]
        return min(unvisited, key=lambda each: ((*order, each[0]).index(each[0]), each[1]))[2]

    def _untried_actions(self, node: Node[S]) -> list[str]:
        """Return the untried legal actions at a node. A dead action may make another action legal."""
        unavailable = node.dead_actions | node.postponed
        tried = unavailable | {child.action for child in node.children}
        if node is self.root:
            tried |= set(self._side_actions)
        legal = () if node.is_terminal else self._problem.legal_actions(node.state, frozenset(unavailable))
        return [action for action in legal if action not in tried]

    async def _roll_out(self, path: list[Node[S]], action: str, rollout: int) -> Node[S] | None:
        """Run a rollout from the end of `path`, and return the terminal that the rollout reaches, or None.

        The nodes that the rollout enters are appended to `path`.
        """
        start = path[-1]
        while not path[-1].is_terminal:
            untried = self._untried_actions(path[-1])
            if not untried:
                break
            action = action or self._problem.choose_action(path[-1], untried, rollout)
            child = await self._expand(path[-1], action, rollout)
            path += self._count_visits([child]) if child else []
            action = ""
        start.has_pending_rollout = False
        return path[-1] if path[-1].is_terminal else None

    async def _expand(self, node: Node[S], action: str, rollout: int) -> Node[S] | None:
        """Expand `action` at a node, and return the child that the rollout enters, or None.

        If expansion is eager, all other untried actions are expanded as well. If `action` then has no
        outcome, the rollout policy chooses one of the actions that have an outcome.
        """
        actions = [action]
        if self._parameters.expansion == "eager":
            actions += [each for each in self._untried_actions(node) if each != action]
        expansions = (self._problem.expand(node, each, rollout) for each in actions)
        results = await self._parameters.together(expansions)
        children_of = {
            each: self._add_children(node, each, outcomes)
            for each, outcomes in zip(actions, results, strict=True)
        }
        live = [each for each in actions if children_of[each]]
        if not live:
            return None
        children = children_of[action if action in live else self._problem.choose_action(node, live, rollout)]
        if len(children) > 1 and self._parameters.unexplored == "random":
            return random.Random(f"{self._seed} enter {rollout} {node.name}").choice(children)
        return children[0]

    def _add_children(
        self, node: Node[S], action: str, outcomes: Sequence[ActionOutcome[S]] | None
    ) -> list[Node[S]]:
        if outcomes is None:
            node.postponed.add(action)
        elif not outcomes:
            node.dead_actions.add(action)
        children = [
            Node(each.state, action, node, number, each.votes, self._problem.is_terminal(each.state))
            for number, each in enumerate(outcomes or (), start=len(node.children) + 1)
        ]
        node.children += children
        return children

    def _count_visits(self, path: list[Node[S]]) -> list[Node[S]]:
        for node in path:
            node.visits += 1
        return path

    def _backup(self, path: Sequence[Node[S]], end: Node[S] | None) -> None:
        """Record the end of a rollout and propagate all changed rewards up to the root."""
        if end is None:
            self.num_failed += 1
            for node in path:
                node.visits -= 1
            return
        if not end.num_rewarded:
            self.terminals.append(end)
        end.num_rewarded += 1
        _propagate(end, end.reward)
        for terminal, reward in zip(self.terminals, self._problem.rewards(self.terminals), strict=True):
            _propagate(terminal, terminal.num_rewarded * (reward - terminal.reward))
            terminal.reward = reward


def _propagate(node: Node[Any], value: float) -> None:
    for ancestor in node.path:
        ancestor.value += value
