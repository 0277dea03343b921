"""What Self-RAG decides on, writes and judges: searches, segments, paths of them, and what a path cites."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Literal

from askance.core.ports import Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Citation, Hit, TokenIds
from askance.methods.selfrag import tokens
from askance.methods.selfrag.tasks import note_disarmed
from askance.methods.selfrag.tokens import Distribution
from askance.text.answers import sentence_spans

Action = Literal["retrieve", "continue", "none", "lead"]
"""How a segment begins: with a passage, with the one in use, without any, or before any decision."""
Citing = Literal["each_sentence", "last_sentence"]
Mode = Literal["adaptive", "always", "never"]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A piece of an answer, as a rule a sentence, and what was judged of it.

    Attributes:
        written: as it goes into the next prompt, without control tokens.
        hit: the passage it was written with, its own or the one in use; None without one.
        ids: as the model wrote it, control tokens included; empty where a prompt of words is used.
        relevance, support, utility: of this segment, empty where not judged.
        labels: the tokens that were chosen: written by the model, or the likeliest of a judgement.
        onward: the retrieve tokens' probabilities at its end.
        sequence_score: geometric mean of the probabilities of its tokens.
        is_last: the answer is over behind it.
        is_judged: nothing is missing that its score depends on; otherwise its support is.
    """

    written: str
    action: Action
    hit: Hit | None = None
    ids: TokenIds = ()
    relevance: Distribution = field(default_factory=dict)
    support: Distribution = field(default_factory=dict)
    utility: Distribution = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    onward: Distribution = field(default_factory=dict)
    sequence_score: float = 0.0
    is_last: bool = False
    is_judged: bool = True

    @property
    def text(self) -> str:
        """Its words on one line."""
        return " ".join(self.written.split())


START = "0"
"""The name of the path that all others begin with."""


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """An answer on its way.

    Attributes:
        name: its place in the tree: the number of each segment among those tried beside it, from 1.
        scores: of the segments that were written with a passage of their own.
        utility: of the whole, empty where not judged yet.
        onward: the retrieve tokens' probabilities at its end.
    """

    segments: tuple[Segment, ...] = ()
    name: str = START
    scores: tuple[float, ...] = ()
    utility: Distribution = field(default_factory=dict)
    onward: Distribution = field(default_factory=dict)
    is_finished: bool = False

    @property
    def written(self) -> str:
        """All text, as it was written."""
        return "".join(segment.written for segment in self.segments)

    @property
    def text(self) -> str:
        """Its words on one line."""
        return " ".join(self.written.split())

    @property
    def in_use(self) -> Hit | None:
        """The passage that was used last."""
        used = (segment.hit for segment in reversed(self.segments) if segment.action == "retrieve")
        return next(used, None)

    def score(self, power: float) -> float:
        """The sum of the scores of n segments over n to some power; 0 without any.

        With a segment whose support is not judged yet it is an upper bound.
        """
        num_scored = len(self.scores)
        return sum(self.scores) / float(num_scored**power) if num_scored else 0.0

    def then(self, segment: Segment, number: int) -> "Path":
        """The path with one more segment, the `number`-th of those tried."""
        return replace(self, segments=(*self.segments, segment), name=f"{self.name}.{number}")


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of equation 4; what has a weight of 0 need not be judged."""

    relevance: float = 1.0
    support: float = 1.0
    utility: float = 0.5
    sequence: float = 1.0

    def of_segment(self, segment: Segment) -> float:
        """The score of a segment: equation 4 without the utility, which only whole answers have.

        Support that is not judged yet counts as much as it can: the score is an upper bound then.
        """
        backing = segment.support if segment.is_judged else {tokens.FULLY: 1.0}
        relevance = self.relevance * tokens.relevance_score(segment.relevance)
        score = self.sequence * segment.sequence_score + relevance
        return score + self.support * tokens.support_score(backing)

    def of_answer(self, segment: Segment) -> float:
        """The score of a segment that is a whole answer."""
        return self.of_segment(segment) + self.of_utility(segment.utility)

    def of_utility(self, utility: Distribution) -> float:
        """What a whole answer's utility adds to its score."""
        return self.utility * tokens.utility_score(utility)


@dataclass(frozen=True, slots=True)
class Constraints:
    """The hard constraints: what is rejected whatever its score."""

    unsupported: bool = False
    irrelevant: bool = False
    least_utility: int = 1

    def rejection(self, segment: Segment) -> str:
        """Why a segment is rejected, or nothing."""
        if self.unsupported and tokens.UNSUPPORTED in segment.labels:
            return "its passage does not support it"
        if self.irrelevant and tokens.IRRELEVANT in segment.labels:
            return "its passage is irrelevant"
        return self.uselessness(segment.labels)

    def uselessness(self, labels: Collection[str]) -> str:
        """Why an answer of that utility is rejected, or nothing."""
        grades = [grade for grade, label in enumerate(tokens.UTILITIES, start=1) if label in labels]
        if grades and grades[0] < self.least_utility:
            return f"its utility is {grades[0]}, less than {self.least_utility}"
        return ""


def cited(path: Path, which: Citing) -> tuple[str, tuple[Citation, ...]]:
    """The answer on one line, and its citations in order.

    A segment cites the passage that it was written with, unless that was judged irrelevant or not to support
    it; so does one that continues to use it. Passages are numbered in the order of their first citation,
    from 1.
    """
    text, citations = "", list[Citation]()
    numbers: dict[str, int] = {}
    for segment in path.segments:
        piece = tokens.without_tokens(segment.text)
        if not piece:
            continue
        text += (" " if text else "") + piece
        if segment.hit is not None and not segment.labels & {tokens.IRRELEVANT, tokens.UNSUPPORTED}:
            number = numbers.setdefault(segment.hit.passage.id, len(numbers) + 1)
            spans = sentence_spans(piece)
            start = len(text) - len(piece)
            for first, last in spans if which == "each_sentence" else spans[-1:]:
                citations.append(Citation(number, segment.hit.passage, start + first, start + last))
    return text, tuple(citations)


@dataclass(frozen=True, slots=True)
class SearchRule:
    """When to search: always, never, or as the probabilities of the retrieve tokens have it.

    Attributes:
        threshold: the share of [Retrieval] above which there is a search; without one, the likeliest token
            decides.
    """

    mode: Mode
    threshold: float | None

    def action(self, onward: Distribution, path: Path) -> Action:
        """How the next segment of `path` begins."""
        if self.mode != "adaptive":
            return "retrieve" if self.mode == "always" else "none"
        if tokens.wants_to_go_on(onward) and path.in_use is not None:
            return "continue"
        return "retrieve" if tokens.wants_search(onward, self.threshold) else "none"

    def decide(self, run: Run, onward: Distribution, action: Action, query: str) -> Decided:
        """The decision in the trace, with the probabilities it was read from.

        Args:
            query: empty where the passages are there already.
        """
        share = tokens.search_share(onward)
        has_words = self.mode == "adaptive" and self.threshold is not None and onward
        outcome = "keep" if action != "retrieve" else "search" if query else "reuse"
        return run.trace.decide(
            "retrieve",
            outcome,
            self._why(onward, action),
            signal="share of [Retrieval]",
            threshold=self.threshold,
            query=query if action == "retrieve" else "",
            words=(WordSignal(tokens.SEARCH, share, is_hit=action == "retrieve"),) if has_words else (),
            numbers={**onward, **({"share": share} if onward else {})},
        )

    async def found(
        self, run: Run, onward: Distribution, action: Action, query: str, k: int
    ) -> tuple[Hit, ...]:
        """The decision, and what it finds; see `found_for`."""
        decision = self.decide(run, onward, action, query)
        return await found_for(run, decision, k) if action == "retrieve" else ()

    def _why(self, onward: Distribution, action: Action) -> str:
        if self.mode != "adaptive":
            return f"mode={self.mode}"
        if action == "continue":
            return "the model goes on with the passage it has"
        if self.threshold is None:
            return f"the likeliest token is {tokens.likeliest(onward) or 'none of the three'}"
        above = "above" if action == "retrieve" else "not above"
        return f"the share of [Retrieval] is {tokens.search_share(onward):.2f}, {above} {self.threshold:g}"


async def found_for(run: Run, decision: Decided, k: int) -> tuple[Hit, ...]:
    """The passages for a decision's query, strings of reflection tokens in them broken and counted."""
    with run.trace.because(decision):
        hits = await run.retriever.search(decision.query, k)
    cleaned = [tokens.disarmed_hit(hit) for hit in hits]
    note_disarmed(run.trace, "passage", sum(count for _, count in cleaned))
    return tuple(hit for hit, _ in cleaned)


def show(run: Run, node: str, segment: Segment, score: float, rejected: str) -> None:
    """A candidate in the trace: its text, passage, distributions and scores.

    Where its support is not judged, `score` is the most that it could be.
    """
    judged = {
        "relevance": segment.relevance,
        "support": segment.support,
        "utility": segment.utility,
        "retrieve": segment.onward,
    }
    run.trace.expand(
        node,
        segment.action,
        segment.text,
        passage=segment.hit,
        numbers={
            "score" if segment.is_judged else "score at most": score,
            "sequence": segment.sequence_score,
            "relevance": tokens.relevance_score(segment.relevance),
            **({"support": tokens.support_score(segment.support)} if segment.is_judged else {}),
            "utility": tokens.utility_score(segment.utility),
        },
        distributions={name: dict(probs) for name, probs in judged.items() if probs},
        rejected=rejected,
    )
