"""What Self-RAG writes and judges: segments, paths of them, and what a path cites."""

from dataclasses import dataclass, field, replace
from typing import Literal

from askance.core.ports import Run
from askance.core.trace import Decided
from askance.core.types import Citation, Hit, TokenIds
from askance.methods.selfrag import tokens
from askance.methods.selfrag.tasks import note_disarmed
from askance.methods.selfrag.tokens import Distribution
from askance.text.answers import sentence_spans

Action = Literal["retrieve", "continue", "none", "lead"]
"""How a segment begins: with a passage, with the one in use, without any, or before any decision."""
Citing = Literal["each_sentence", "last_sentence"]


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

    @property
    def is_judged(self) -> bool:
        """Whether nothing is missing that its score depends on."""
        return all(segment.is_judged for segment in self.segments)

    def score(self, power: float) -> float:
        """The sum of the scores of n segments over n to some power; 0 without any.

        With a segment whose support is not judged yet it is an upper bound.
        """
        num_scored = len(self.scores)
        return sum(self.scores) / float(num_scored**power) if num_scored else 0.0

    def then(self, segment: Segment, number: int) -> "Path":
        """The path with one more segment, the `number`-th of those tried."""
        return replace(self, segments=(*self.segments, segment), name=f"{self.name}.{number}")


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
