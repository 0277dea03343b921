"""The data of Self-RAG: segments, paths of segments, and the citations of a path."""

from dataclasses import dataclass, field
from typing import Literal

from askance.core.ports import Run
from askance.core.trace import Decided
from askance.core.types import Hit, TokenIds
from askance.methods.selfrag import tokens
from askance.methods.selfrag.prompts import record_escaped
from askance.methods.selfrag.tokens import Distribution
from askance.text.answers import sentence_spans
from askance.text.support import SentenceSupport

Action = Literal["retrieve", "continue", "none", "lead"]
"""The start of a segment: a new passage, the current passage, no passage, or text before any decision."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A piece of an answer, usually a sentence, with its critique.

    Attributes:
        written: The text as it goes into the next prompt, without control tokens.
        hit: The passage that the segment was written with, new or reused; None if there was none.
        ids: The token ids that the model wrote, including control tokens; empty without native tokens.
        relevance, support, utility: The distributions over these token groups; empty if not judged.
        labels: The reflection tokens that the model wrote, or the most likely token of each judgement by a
            scorer.
        retrieve_probs: The probabilities of the retrieve tokens at the end of the segment.
        sequence_score: The geometric mean of the token probabilities.
        is_judged: False if the score depends on support or utility that is not judged yet.
    """

    written: str
    action: Action
    hit: Hit | None = None
    ids: TokenIds = ()
    relevance: Distribution = field(default_factory=dict)
    support: Distribution = field(default_factory=dict)
    utility: Distribution = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    retrieve_probs: Distribution = field(default_factory=dict)
    sequence_score: float = 0.0
    is_last: bool = False
    is_judged: bool = True

    @property
    def text(self) -> str:
        """Return the text on one line."""
        return " ".join(self.written.split())


START = "0"
"""The name of the root path."""


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """An answer in progress: a sequence of segments.

    Attributes:
        name: The position in the search tree: "0", then the number of each segment among its siblings, as in
            "0.2.1".
        utility: The utility distribution of the whole answer; empty if not judged yet.
        retrieve_probs: The probabilities of the retrieve tokens for the last decision that was made.
    """

    segments: tuple[Segment, ...] = ()
    name: str = START
    utility: Distribution = field(default_factory=dict)
    retrieve_probs: Distribution = field(default_factory=dict)
    is_finished: bool = False

    @property
    def written(self) -> str:
        """Return the text of all segments exactly as it was written."""
        return "".join(segment.written for segment in self.segments)

    @property
    def text(self) -> str:
        """Return the text on one line."""
        return " ".join(self.written.split())

    @property
    def current_hit(self) -> Hit | None:
        """Return the passage that was retrieved last, or None."""
        used = (segment.hit for segment in reversed(self.segments) if segment.action == "retrieve")
        return next(used, None)

    @property
    def is_judged(self) -> bool:
        """Return whether the support of every segment that needs a judgement is judged."""
        return all(segment.is_judged for segment in self.segments)

    @property
    def reflection(self) -> float | None:
        """Return the least judgement of a segment with a passage, from 0 to 1, or None without one.

        The judgement is the normalised probability of [Relevant], times that of [Fully supported] if support
        is judged.
        """
        judged = [
            tokens.relevance_score(each.relevance)
            * (tokens.support_score(each.support) if each.support else 1.0)
            for each in self.segments
            if each.hit is not None and each.relevance
        ]
        return min(judged, default=None)


def cite_passages(path: Path) -> tuple[str, list[SentenceSupport]]:
    """Return the answer on one line, and its sentences with the passages that they cite, in order.

    A segment cites the passage that it was written with, even if an earlier segment retrieved that passage.
    It cites nothing if the passage was judged irrelevant or the segment unsupported.
    """
    text, sentences = "", list[SentenceSupport]()
    for segment in path.segments:
        piece = tokens.without_tokens(segment.text)
        if not piece:
            continue
        text += (" " if text else "") + piece
        if segment.hit is not None and not segment.labels & {tokens.IRRELEVANT, tokens.NO_SUPPORT}:
            start, passages = len(text) - len(piece), (segment.hit.passage,)
            for first, last in sentence_spans(piece):
                sentences.append(SentenceSupport(start + first, start + last, passages))
    return text, sentences


async def search_passages(run: Run, decision: Decided, k: int) -> tuple[Hit, ...]:
    """Return the hits for the query of `decision`, with the reflection tokens in passages escaped."""
    with run.trace.because(decision):
        hits = await run.retriever.search(decision.query, k)
    cleaned = [tokens.escape_hit(hit) for hit in hits]
    record_escaped(run.trace, "passage", sum(count for _, count in cleaned))
    return tuple(hit for hit, _ in cleaned)
