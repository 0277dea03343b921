"""Where a path of AirRAG stands: what is planned, asked, answered and found, and what may come next.

Feng et al. 2025 (arXiv 2501.10053), section 3 and appendix. A state is its parent's with one step more; the
paper names the actions and their order, and leaves open what a list of queries does: here it is a queue.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from askance.core.types import Demo, Hit
from askance.text.answers import normalise_answer

SAY, DA, RA, QT, SA = "say", "da", "ra", "qt", "sa"
"""System analysis, direct answer, retrieval-answer, query transformation, summary-answer."""
SAME_QUERY = 0.9
"""Share of common words from which a proposed query counts as asked already."""


@dataclass(frozen=True, slots=True)
class ActionStep:
    """An action and what it gave: queries, or an answer."""

    action: str
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathState:
    """A path so far.

    Attributes:
        pending: sub-queries not answered yet, the next one first.
        history: sub-queries with their answers.
        found: the passages of each retrieval, best first.
        answer: of the whole path; None until it ends.
        num_repeats: transformations that gave nothing but queries asked before.
        is_cut: the budget ended it before its time.
        refused: the passages did not hold the last sub-query's answer.
    """

    steps: tuple[ActionStep, ...] = ()
    pending: tuple[str, ...] = ()
    history: tuple[Demo, ...] = ()
    found: tuple[tuple[Hit, ...], ...] = ()
    answer: str | None = None
    num_repeats: int = 0
    is_cut: bool = False
    refused: bool = False

    @property
    def last(self) -> str:
        """The last action, or nothing at the root."""
        return self.steps[-1].action if self.steps else ""

    def times(self, action: str) -> int:
        """How often an action was taken."""
        return sum(step.action == action for step in self.steps)

    @property
    def plan(self) -> tuple[str, ...]:
        """The sub-queries that the analysis gave; none where it saw nothing to gain."""
        return next((step.said for step in self.steps if step.action == SAY), ())

    @property
    def hits(self) -> tuple[Hit, ...]:
        """All passages found, each once and at its best rank, the best of each retrieval first."""
        return each_once(sorted((hit for hits in self.found for hit in hits), key=lambda hit: hit.rank))

    @property
    def key(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Paths with equal keys are the same: actions, and what they gave in a form that can be compared."""
        return tuple((step.action, tuple(map(normalise_answer, step.said))) for step in self.steps)

    def _then(self, action: str, said: tuple[str, ...]) -> "PathState":
        return replace(self, steps=(*self.steps, ActionStep(action, said)))

    def planned(self, queries: tuple[str, ...], question: str) -> "PathState":
        """After SAY: its queries are the queue, or the question itself where it gave none."""
        return replace(self._then(SAY, queries), pending=_each_asked_once(queries) or (question,))

    def answered(self, query: str, answer: str, hits: tuple[Hit, ...], *, refused: bool) -> "PathState":
        """After RA: the head of the queue is answered."""
        return replace(
            self._then(RA, (answer,)),
            pending=self.pending[1:],
            history=(*self.history, Demo(query, answer)),
            found=(*self.found, hits),
            refused=refused,
        )

    def transformed(self, queries: tuple[str, ...]) -> "PathState":
        """After QT: its queries take the place of the head of the queue; without any, all stays as it is.

        A query that was asked before, or that shares nine words in ten with one, is left out: a model that
        asks the same for ever would not end. A query that stands in the queue already moves to its head.
        """
        asked = [pair.question for pair in self.history]
        fresh = tuple(query for query in queries if not any(is_same(query, each) for each in asked))
        return replace(
            self._then(QT, fresh),
            pending=_each_asked_once((*fresh, *self.pending[1:])) if fresh else self.pending,
            num_repeats=self.num_repeats + (bool(queries) and not fresh),
        )

    def concluded(self, action: str, answer: str, *, is_cut: bool = False) -> "PathState":
        """After an action that ends the path."""
        return replace(self._then(action, (answer,)), answer=answer, is_cut=self.is_cut or is_cut)


def each_once(hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Hits in their order, without those of a passage that stands further in front."""
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(hit.passage.id, hit)
    return tuple(first.values())


def _each_asked_once(queries: Iterable[str]) -> tuple[str, ...]:
    """Queries in their order, without those that ask the same as one further in front."""
    kept: list[str] = []
    for query in queries:
        if not any(is_same(query, each) for each in kept):
            kept.append(query)
    return tuple(kept)


def is_same(query: str, other: str) -> bool:
    """Whether two queries ask for the same, by their words."""
    return jaccard(words_of(query), words_of(other)) >= SAME_QUERY


def words_of(text: str) -> frozenset[str]:
    """The words of a text, lower-case, without punctuation and articles."""
    return frozenset(normalise_answer(text).split())


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of the words of either that both have; 1 where neither has any."""
    return len(one & other) / len(one | other) if one or other else 1.0
