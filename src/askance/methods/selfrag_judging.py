"""A written segment judged by a scorer, all groups side by side; what nobody reads is not asked for."""

from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING

from askance.core.types import Hit, Key
from askance.methods.reflection_tokens import Distribution, Group, likeliest
from askance.methods.selfrag_scorers import ReflectionScorer
from askance.methods.selfrag_segments import Path, Segment
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
        whole: it is a whole answer, whose utility counts, and behind which nothing follows.
        relevance: of its passage, which was judged while it was written.
    """
    if not segment.text:
        return segment
    asked = _asked(selfrag, scorer, path, segment, key, whole=whole)
    found = dict(zip(asked, await abreast(asked.values()), strict=True))
    return replace(
        segment,
        relevance=relevance,
        support=found.get("support", {}),
        utility=found.get("utility", {}),
        onward=found.get("retrieve", {}),
        labels=frozenset(filter(None, map(likeliest, (relevance, *found.values())))),
    )


def _asked(
    selfrag: "Selfrag", scorer: ReflectionScorer, path: Path, segment: Segment, key: Key, *, whole: bool
) -> dict[Group, Awaitable[Distribution]]:
    before, so_far = _line(path.written), _line(f"{path.written} {segment.text}")
    asked: dict[Group, Awaitable[Distribution]] = {}
    if segment.action == "retrieve" and segment.hit is not None and selfrag.reads_support:
        asked["support"] = scorer.support(before, segment.text, segment.hit, key=(*key, "support"))
    if whole and selfrag.reads_utility:
        asked["utility"] = scorer.utility(so_far, key=(*key, "utility"))
    if not whole and not segment.is_last and selfrag.mode == "adaptive":
        in_use = segment.hit or path.in_use
        hits = () if in_use is None else (in_use,)
        asked["retrieve"] = scorer.retrieve(so_far, hits, key=(*key, "onward"))
    return asked


def _line(text: str) -> str:
    return " ".join(text.split())
