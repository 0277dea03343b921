"""When Self-RAG searches, and what the trace shows of the segments that were tried."""

from dataclasses import dataclass
from typing import Literal

from askance.core.ports import Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Hit
from askance.methods.selfrag.segments import Action, Path, Segment
from askance.methods.selfrag.tasks import note_disarmed
from askance.methods.selfrag.tokens import (
    SEARCH,
    Distribution,
    disarmed_hit,
    likeliest,
    relevance_score,
    search_share,
    support_score,
    utility_score,
    wants_search,
    wants_to_go_on,
)

Mode = Literal["adaptive", "always", "never"]


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
        if wants_to_go_on(onward) and path.in_use is not None:
            return "continue"
        return "retrieve" if wants_search(onward, self.threshold) else "none"

    def decide(self, run: Run, onward: Distribution, action: Action, query: str) -> Decided:
        """The decision in the trace, with the probabilities it was read from.

        Args:
            query: empty where the passages are there already.
        """
        share = search_share(onward)
        has_words = self.mode == "adaptive" and self.threshold is not None and onward
        outcome = "keep" if action != "retrieve" else "search" if query else "reuse"
        return run.trace.decide(
            "retrieve",
            outcome,
            self._why(onward, action),
            signal="share of [Retrieval]",
            threshold=self.threshold,
            query=query if action == "retrieve" else "",
            words=(WordSignal(SEARCH, share, is_hit=action == "retrieve"),) if has_words else (),
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
            return f"the likeliest token is {likeliest(onward) or 'none of the three'}"
        above = "above" if action == "retrieve" else "not above"
        return f"the share of [Retrieval] is {search_share(onward):.2f}, {above} {self.threshold:g}"


async def found_for(run: Run, decision: Decided, k: int) -> tuple[Hit, ...]:
    """The passages for a decision's query, strings of reflection tokens in them broken and counted."""
    with run.trace.because(decision):
        hits = await run.retriever.search(decision.query, k)
    cleaned = [disarmed_hit(hit) for hit in hits]
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
            "relevance": relevance_score(segment.relevance),
            **({"support": support_score(segment.support)} if segment.is_judged else {}),
            "utility": utility_score(segment.utility),
        },
        distributions={name: dict(probs) for name, probs in judged.items() if probs},
        rejected=rejected,
    )
