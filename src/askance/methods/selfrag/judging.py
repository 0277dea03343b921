"""A written segment judged by a scorer; what nobody reads, or nobody reads yet, is not asked for."""

from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING

from askance.core.types import Hit, Key
from askance.methods.selfrag.scorers import ReflectionScorer
from askance.methods.selfrag.segments import Path, Segment
from askance.methods.selfrag.tokens import Distribution, Group, likeliest
from askance.tree.abreast import abreast

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag


async def relevance_of(
    selfrag: "Selfrag", scorer: ReflectionScorer | None, hit: Hit | None, key: Key
) -> Distribution:
    """Whether a passage helps, for the segment with this key; empty where there is none, or nobody reads it.

    It does not depend on what is written with the passage, so it is asked meanwhile.
    """
    if scorer is None or hit is None or not selfrag.reads_relevance:
        return {}
    return await scorer.relevance(hit, key=(*key, "relevance"))


async def judged(
    selfrag: "Selfrag",
    scorer: ReflectionScorer,
    path: Path,
    segment: Segment,
    key: Key,
    *,
    whole: bool,
    relevance: Distribution,
) -> Segment:
    """`segment`, which follows `path`, with the scorer's distributions; the likeliest tokens are its labels.

    Args:
        whole: it is a whole answer, whose support and utility count; those of a segment that may yet fall
            out of a beam are left to `with_support` and `onward_of`.
        relevance: of its passage, which was judged while it was written.
    """
    if not segment.text:
        return segment
    is_backed = segment.action == "retrieve" and segment.hit is not None and selfrag.reads_support
    segment = replace(
        segment, relevance=relevance, labels=_likeliest(relevance), is_judged=whole or not is_backed
    )
    if not whole:
        return segment
    asked: dict[Group, Awaitable[Distribution]] = {}
    if is_backed and segment.hit is not None:
        before = _line(path.written)
        asked["support"] = scorer.support(before, segment.text, segment.hit, key=(*key, "support"))
    if selfrag.reads_utility:
        so_far = _line(f"{path.written} {segment.text}")
        asked["utility"] = scorer.utility(so_far, key=(*key, "utility"))
    found = dict(zip(asked, await abreast(asked.values()), strict=True))
    return replace(
        segment,
        support=found.get("support", {}),
        utility=found.get("utility", {}),
        labels=segment.labels.union(*map(_likeliest, found.values())),
    )


async def with_support(scorer: ReflectionScorer, path: Path, segment: Segment, key: Key) -> Segment:
    """`segment`, which follows `path`, with how far its passage backs it, if that is still to be judged."""
    if segment.is_judged or segment.hit is None:
        return segment
    support = await scorer.support(_line(path.written), segment.text, segment.hit, key=(*key, "support"))
    return replace(segment, support=support, labels=segment.labels | _likeliest(support), is_judged=True)


async def onward_of(selfrag: "Selfrag", scorer: ReflectionScorer, path: Path, key: Key) -> Distribution:
    """Whether to search before `path` goes on; empty where nobody reads it."""
    *before, last = path.segments
    if selfrag.mode != "adaptive" or last.is_last or not last.text:
        return {}
    so_far = _line(f"{''.join(each.written for each in before)} {last.text}")
    hits = () if path.in_use is None else (path.in_use,)
    return await scorer.retrieve(so_far, hits, key=(*key, "onward"))


def _likeliest(distribution: Distribution) -> frozenset[str]:
    return frozenset(filter(None, (likeliest(distribution),)))


def _line(text: str) -> str:
    return " ".join(text.split())
