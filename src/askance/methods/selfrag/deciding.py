"""When Self-RAG searches, what it rejects, and what the trace shows of either."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Hit
from askance.methods.selfrag.scores import (
    relevance_score,
    search_share,
    support_score,
    utility_score,
    wants_search,
    wants_to_go_on,
)
from askance.methods.selfrag.segments import Action, Path, Segment
from askance.methods.selfrag.tokens import (
    IRRELEVANT,
    SEARCH,
    UNSUPPORTED,
    UTILITIES,
    Distribution,
    disarmed_hit,
    likeliest,
)

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag


def next_action(selfrag: "Selfrag", onward: Distribution, path: Path) -> Action:
    """How the next segment begins, as the mode has it or as the model would."""
    if selfrag.mode != "adaptive":
        return "retrieve" if selfrag.mode == "always" else "none"
    if wants_to_go_on(onward) and path.in_use is not None:
        return "continue"
    return "retrieve" if wants_search(onward, selfrag.threshold) else "none"


def decided(selfrag: "Selfrag", run: Run, onward: Distribution, action: Action, query: str) -> Decided:
    """The decision in the trace, with the probabilities it was read from.

    Args:
        query: empty where the passages are there already.
    """
    if selfrag.mode != "adaptive":
        why = f"mode={selfrag.mode}"
    elif action == "continue":
        why = "the model goes on with the passage it has"
    elif selfrag.threshold is None:
        why = f"the likeliest token is {likeliest(onward) or 'none of the three'}"
    else:
        above = "above" if action == "retrieve" else "not above"
        why = f"the share of [Retrieval] is {search_share(onward):.2f}, {above} {selfrag.threshold:g}"
    outcome = "keep"
    if action == "retrieve":
        outcome = "search" if query else "reuse"
    return run.trace.decide(
        "retrieve",
        outcome,
        why,
        signal="share of [Retrieval]",
        threshold=selfrag.threshold,
        query=query if action == "retrieve" else "",
        words=_judged(selfrag, onward, action),
        numbers={**onward, **({"share": search_share(onward)} if onward else {})},
    )


def _judged(selfrag: "Selfrag", onward: Distribution, action: Action) -> tuple[WordSignal, ...]:
    """What the threshold was held against."""
    if selfrag.mode != "adaptive" or selfrag.threshold is None or not onward:
        return ()
    return (WordSignal(SEARCH, search_share(onward), is_hit=action == "retrieve"),)


async def found_for(run: Run, decision: Decided, k: int) -> tuple[Hit, ...]:
    """The passages for a decision's query, strings of reflection tokens in them broken and counted."""
    with run.trace.because(decision):
        hits = await run.retriever.search(decision.query, k)
    cleaned = [disarmed_hit(hit) for hit in hits]
    note_disarmed(run, "passage", sum(count for _, count in cleaned))
    return tuple(hit for hit, _ in cleaned)


def note_disarmed(run: Run, where: str, num_strings: int) -> None:
    """In the trace, that strings of reflection tokens in a passage or question were broken, if any were."""
    if num_strings:
        why = f"what looks like a reflection token ({num_strings}) is kept from being one"
        run.trace.decide(where, "disarm", why, numbers={"strings": num_strings})


def rejection(selfrag: "Selfrag", segment: Segment) -> str:
    """Why a hard constraint rejects a segment, or nothing."""
    if selfrag.reject_unsupported and UNSUPPORTED in segment.labels:
        return "its passage does not support it"
    if selfrag.reject_irrelevant and IRRELEVANT in segment.labels:
        return "its passage is irrelevant"
    return useless(selfrag, segment.labels)


def useless(selfrag: "Selfrag", labels: Collection[str]) -> str:
    """Why an answer of that utility is rejected, or nothing."""
    grades = [grade for grade, label in enumerate(UTILITIES, start=1) if label in labels]
    if grades and grades[0] < selfrag.least_utility:
        return f"its utility is {grades[0]}, less than {selfrag.least_utility}"
    return ""


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
