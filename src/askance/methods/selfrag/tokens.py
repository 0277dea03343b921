r"""The reflection tokens of Self-RAG (Asai et al. 2024): how an output is written with them, and read.

    output   := segment+ utility
    segment  := sentence_text
              | "[No Retrieval]" sentence_text
              | "[Continue to Use Evidence]" sentence_text
              | "[Retrieval]" passage "[Relevant]" sentence_text support
              | "[Retrieval]" passage "[Irrelevant]" sentence_text
    passage  := "<paragraph>" title "\n" text "</paragraph>"

No spaces stand around tokens. The strings are those of the released checkpoints, letter by letter.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from askance.core.types import Hit

Group = Literal["retrieve", "relevance", "support", "utility"]
Distribution = Mapping[str, float]
"""Probabilities of the tokens of a group. They need not sum to 1: only their ratios are read."""

SEARCH, NO_SEARCH, KEEP_USING = "[Retrieval]", "[No Retrieval]", "[Continue to Use Evidence]"
RELEVANT, IRRELEVANT = "[Relevant]", "[Irrelevant]"
FULLY, PARTIALLY, UNSUPPORTED = (
    "[Fully supported]", "[Partially supported]", "[No support / Contradictory]",
)  # fmt: skip
UTILITIES = tuple(f"[Utility:{grade}]" for grade in range(1, 6))
OPENS, CLOSES = "<paragraph>", "</paragraph>"

GROUPS: Mapping[Group, tuple[str, ...]] = {
    "retrieve": (SEARCH, NO_SEARCH, KEEP_USING),
    "relevance": (RELEVANT, IRRELEVANT),
    "support": (FULLY, PARTIALLY, UNSUPPORTED),
    "utility": UTILITIES,
}
JUDGED = tuple(token for tokens in GROUPS.values() for token in tokens)
"""The thirteen whose probabilities are read."""
ALL_TOKENS = (*JUDGED, OPENS, CLOSES)

_TOKEN = re.compile("(" + "|".join(map(re.escape, ALL_TOKENS)) + ")")
_GROUP_OF: Mapping[str, Group] = {token: group for group, tokens in GROUPS.items() for token in tokens}
_BREAK = "\u200b"


@dataclass(frozen=True, slots=True)
class OutputSegment:
    """A segment of an output; a token that is not there is an empty text."""

    text: str = ""
    retrieve: str = ""
    passage: str = ""
    relevance: str = ""
    support: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """An output, read. `utility` is the first utility token, or empty."""

    segments: tuple[OutputSegment, ...]
    utility: str = ""


def parse(output: str) -> Output:
    """Read an output. Tokens in an order that the grammar does not know are read as well as can be.

    A token opens a new segment where the one at hand has it already, or has what follows it. A passage that
    is never closed ends with the output; what stands after the utility token is a segment, too.
    """
    reading = _Reading()
    in_passage = False
    for piece in filter(None, _TOKEN.split(output)):
        if in_passage:
            in_passage = piece != CLOSES
            if in_passage:
                reading.passage(piece)
        elif piece == OPENS:
            in_passage = True
            reading.open_passage()
        elif piece != CLOSES:
            reading.take(piece, _GROUP_OF.get(piece))
    return reading.output()


class _Reading:
    """An output while it is read."""

    def __init__(self) -> None:
        self._segments: list[OutputSegment] = []
        self._now = OutputSegment()
        self._utility, self._is_judged = "", False

    def take(self, piece: str, group: Group | None) -> None:
        now = self._now
        if group == "utility":
            self._utility, self._is_judged = self._utility or piece, True
        elif group == "retrieve":
            self._close()
            self._now = OutputSegment(retrieve=piece)
        elif group == "relevance":
            self._fresh_if(now.text or now.relevance or now.support)
            self._now = replace(self._now, relevance=piece)
        elif group == "support":
            self._fresh_if(now.support)
            self._now = replace(self._now, support=piece)
        elif piece.strip():
            self._fresh_if(now.support or self._is_judged)
            self._now = replace(self._now, text=self._now.text + piece)

    def open_passage(self) -> None:
        now = self._now
        self._fresh_if(now.text or now.passage or now.relevance or now.support)

    def passage(self, piece: str) -> None:
        self._now = replace(self._now, passage=self._now.passage + piece)

    def output(self) -> Output:
        self._close()
        return Output(tuple(self._segments), self._utility)

    def _fresh_if(self, is_full: str | bool) -> None:
        if is_full:
            self._close()

    def _close(self) -> None:
        if self._now != OutputSegment():
            self._segments.append(self._now)
        self._now, self._is_judged = OutputSegment(), False


def render(output: Output) -> str:
    """The text that `parse` reads as `output`, in the order of the grammar."""
    return "".join(map(_render, output.segments)) + output.utility


def _render(segment: OutputSegment) -> str:
    passage = f"{OPENS}{segment.passage}{CLOSES}" if segment.passage else ""
    return f"{segment.retrieve}{passage}{segment.relevance}{segment.text}{segment.support}"


def without_tokens(text: str) -> str:
    """`text` without control tokens and passages, on one line; a single leading "#" or ":" goes, too."""
    bare = re.sub(f"{re.escape(OPENS)}.*?({re.escape(CLOSES)}|$)", " ", text, flags=re.DOTALL)
    line = " ".join(bare.split())
    while _TOKEN.search(line):  # what stood around a token, or a line break, may make another together
        line = " ".join(_TOKEN.sub(" ", line).split())
    return re.sub(r"^[#:]\s*", "", line)


def disarmed(text: str) -> tuple[str, int]:
    """`text` with the strings of tokens broken by an invisible character, and how many were."""
    return _TOKEN.subn(lambda found: f"{found.group()[0]}{_BREAK}{found.group()[1:]}", text)


def disarmed_hit(hit: Hit) -> tuple[Hit, int]:
    """The same of a passage's title and text."""
    (title, in_title), (text, in_text) = disarmed(hit.passage.title), disarmed(hit.passage.text)
    passage = replace(hit.passage, title=title, text=text)
    return replace(hit, passage=passage), in_title + in_text


def likeliest(distribution: Distribution) -> str:
    """The most probable token, or an empty text where all are 0."""
    best = max(distribution, key=lambda token: distribution[token], default="")
    return best if best and distribution[best] > 0 else ""
