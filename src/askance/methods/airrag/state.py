"""The states and nodes of AirRAG's search tree: plans, sub-queries, answers, passages, and statistics.

See Feng et al. 2025 (arXiv 2501.10053), section 3 and appendix. Each state extends its parent by one step.
The paper names the actions and their order, but it does not say how a list of queries is processed. Here, the
list is a queue.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from askance.core.types import Demo, Hit
from askance.methods.airrag.prompts import is_refusal
from askance.text.answers import normalise_answer
from askance.text.words import split_words

SAY, DA, RA, QT, SA = "say", "da", "ra", "qt", "sa"
"""System analysis, direct answer, retrieval-answer, query transformation, summary-answer."""
SEPARATOR, NOTHING = "; ", "None"
SAME_QUERY = 0.9
"""The minimum Jaccard similarity at which two queries count as the same."""


@dataclass(frozen=True, slots=True)
class ActionStep:
    """An action with its output: queries, or one answer."""

    action: str
    output: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the output on one line, joined by `SEPARATOR`, or `NOTHING` if there is none."""
        return SEPARATOR.join(self.output) or NOTHING


@dataclass(frozen=True, slots=True)
class PathState:
    """A path from the root to a node of the search tree, finished or not.

    Attributes:
        pending: The sub-queries that are not answered yet, in order.
        history: The answered sub-queries with their answers.
        found: The passages of each retrieval, best first.
        answer: The answer of the whole path; None until the path ends.
        num_repeats: The number of QT steps that gave only queries that were asked before.
        is_cut: True if the budget ended the path early.
        votes: The number of samples of the last step that gave this state.
        share: The product of the shares of the samples that led to this state.
    """

    steps: tuple[ActionStep, ...] = ()
    pending: tuple[str, ...] = ()
    history: tuple[Demo, ...] = ()
    found: tuple[tuple[Hit, ...], ...] = ()
    answer: str | None = None
    num_repeats: int = 0
    is_cut: bool = False
    votes: int = 1
    share: float = 1.0

    @property
    def last_action(self) -> str:
        """Return the last action, or an empty string at the root."""
        return self.steps[-1].action if self.steps else ""

    def count(self, action: str) -> int:
        """Return how many times an action was taken."""
        return sum(step.action == action for step in self.steps)

    @property
    def plan(self) -> tuple[str, ...]:
        """Return the sub-queries that the system analysis proposed, if any."""
        return next((step.output for step in self.steps if step.action == SAY), ())

    @property
    def hits(self) -> tuple[Hit, ...]:
        """Return the distinct passages found, each at its best rank, sorted by rank."""
        return unique_hits(sorted((hit for hits in self.found for hit in hits), key=lambda hit: hit.rank))

    @property
    def key(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the actions with their normalised outputs. Paths with equal keys are the same path."""
        return tuple((step.action, tuple(map(normalise_answer, step.output))) for step in self.steps)

    def _with_step(self, action: str, output: tuple[str, ...]) -> "PathState":
        return replace(self, steps=(*self.steps, ActionStep(action, output)))

    def with_plan(self, queries: tuple[str, ...], question: str) -> "PathState":
        """Return the state after SAY.

        The distinct queries of SAY become the queue. If there are none, the question becomes the queue.
        """
        return replace(self._with_step(SAY, queries), pending=_unique_queries(queries) or (question,))

    def with_answer(self, query: str, answer: str, hits: tuple[Hit, ...]) -> "PathState":
        """Return the state after RA has answered the head of the queue."""
        return replace(
            self._with_step(RA, (answer,)),
            pending=self.pending[1:],
            history=(*self.history, Demo(query, answer)),
            found=(*self.found, hits),
        )

    def with_queries(self, queries: tuple[str, ...]) -> "PathState":
        """Return the state after QT. The new queries, if any, replace the head of the queue.

        A query that repeats an answered query (see `is_same_query`) is left out. Otherwise a model that
        repeats itself would never finish. A query that is already in the queue moves to the head.
        """
        answered = [pair.question for pair in self.history]
        new = tuple(query for query in queries if not any(is_same_query(query, each) for each in answered))
        return replace(
            self._with_step(QT, new),
            pending=_unique_queries((*new, *self.pending[1:])) if new else self.pending,
            num_repeats=self.num_repeats + (bool(queries) and not new),
        )

    def with_final_answer(self, action: str, answer: str, *, is_cut: bool = False) -> "PathState":
        """Return the state after an action that ends the path."""
        return replace(self._with_step(action, (answer,)), answer=answer, is_cut=is_cut)


@dataclass(slots=True, eq=False)
class Node:
    """A node of the search tree: a state with its statistics. A node with an answer ends a path.

    Attributes:
        action: The action that led here from `parent`; empty at the root.
        number: The position of this node among the children of its parent, from 1. A root has the position of
            its tree among the trees of the question.
        dead_actions: The actions that had no outcome.
        visits: The number of rollouts that passed through this node.
        value: The sum of the rewards of the rollouts that passed through this node.
        reward: The latest reward in the search, if this node has an answer.
        score: The score from the reward model, if this node has an answer.
    """

    state: PathState
    action: str = ""
    parent: "Node | None" = None
    number: int = 1
    dead_actions: set[str] = field(default_factory=set)
    children: list["Node"] = field(default_factory=list)
    visits: int = 0
    value: float = 0.0
    reward: float = 0.0
    score: float = 0.0

    @property
    def path(self) -> tuple["Node", ...]:
        """Return the nodes from the root to this one."""
        return (*self.parent.path, self) if self.parent else (self,)

    @property
    def name(self) -> str:
        """Return the number of the tree from 0, and of each node on the path below its root, with dots."""
        root, *others = self.path
        return ".".join([str(root.number - 1), *(str(node.number) for node in others)])

    @property
    def answer(self) -> str:
        """Return the answer of the path that ends here; empty if there is none."""
        return self.state.answer or ""

    @property
    def is_valid(self) -> bool:
        """Return whether there is an answer that is not a refusal."""
        return normalise_answer(self.answer) not in ("", "none") and not is_refusal(self.answer)

    @property
    def path_share(self) -> float:
        """Return the product of the shares of the samples that led along the path, up to its last step."""
        return self.parent.state.share if self.parent else 1.0

    def uct(self, exploration: float) -> float:
        """Return the UCT value (equation 1): the mean reward plus an exploration bonus.

        The UCT value of the root and of an unvisited node is infinite.
        """
        if not self.visits or self.parent is None:
            return math.inf
        bonus = math.sqrt(math.log(self.parent.visits) / self.visits)
        return self.value / self.visits + exploration * bonus

    def subtree(self) -> Iterator["Node"]:
        """Yield this node and all its descendants, parents before children."""
        yield self
        for child in self.children:
            yield from child.subtree()


def unique_hits(hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Return the hits in the given order, without repeated passages."""
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(hit.passage.id, hit)
    return tuple(first.values())


def _unique_queries(queries: Iterable[str]) -> tuple[str, ...]:
    """Return the queries in the given order, without those that repeat an earlier one."""
    kept: list[str] = []
    for query in queries:
        if not any(is_same_query(query, each) for each in kept):
            kept.append(query)
    return tuple(kept)


def is_same_query(query: str, other: str) -> bool:
    """Return whether two queries have nearly the same words."""
    return jaccard(word_set(query), word_set(other)) >= SAME_QUERY


def word_set(text: str) -> frozenset[str]:
    """Return the set of lowercase words in `text`, without punctuation and articles."""
    return frozenset(split_words(normalise_answer(text)))


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity of two word sets, or 1 if both are empty."""
    return len(one & other) / len(one | other) if one or other else 1.0
