"""The tree of a Monte Carlo tree search: states, who visited them, and what that earned."""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S")
A = TypeVar("A", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[S]):
    """A state that an action led to; `votes` of the samples drawn were this one."""

    state: S
    votes: int = 1


@dataclass(slots=True, eq=False)
class Node(Generic[S, A]):
    """A state in the tree.

    Attributes:
        action: what led here from `parent`; None at the root.
        number: its place among the children of its parent, from 1.
        votes: see `Outcome`.
        untried: actions that nothing has been drawn for, the first to be tried first.
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
    action: A | None = None
    parent: "Node[S, A] | None" = None
    number: int = 1
    votes: int = 1
    untried: list[A] = field(default_factory=list)
    dead: set[A] = field(default_factory=set)
    postponed: set[A] = field(default_factory=set)
    children: list["Node[S, A]"] = field(default_factory=list)
    is_terminal: bool = False
    visits: int = 0
    value: float = 0.0
    reward: float = 0.0
    num_paid: int = 0
    is_taken: bool = False

    @property
    def path(self) -> tuple["Node[S, A]", ...]:
        """The nodes from the root to this one."""
        return (*self.parent.path, self) if self.parent else (self,)

    @property
    def name(self) -> str:
        """The numbers along the path, joined by dots behind "0"."""
        return ".".join(["0", *(str(node.number) for node in self.path[1:])])

    @property
    def is_exhausted(self) -> bool:
        """Whether no rollout through it can find anything new."""
        if self.is_terminal:
            return self.visits > 0
        may_go_on = self.untried or self.postponed or self.is_taken
        return not may_go_on and all(each.is_exhausted for each in self.children)

    def uct(self, exploration: float) -> float:
        """Mean reward, and a bonus for what was visited rarely. Infinite where nobody was."""
        if not self.visits or self.parent is None:
            return math.inf
        bonus = math.sqrt(math.log(self.parent.visits) / self.visits)
        return self.value / self.visits + exploration * bonus

    def below(self) -> Iterator["Node[S, A]"]:
        """This node and all under it, each before its children."""
        yield self
        for child in self.children:
            yield from child.below()


@dataclass(slots=True)
class Tree(Generic[S, A]):
    """What a search found.

    Attributes:
        terminals: reached by rollouts, in the order of the first time.
        num_rollouts: that were started.
        num_failed: of them, those that ended nowhere.
    """

    root: Node[S, A]
    terminals: list[Node[S, A]] = field(default_factory=list)
    num_rollouts: int = 0
    num_failed: int = 0
