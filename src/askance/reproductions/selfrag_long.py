"""The long form of Self-RAG's authors' code: a tree of segments whose scores are multiplied."""

from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.trace import Decided
from askance.core.types import Citation, Hit, Part
from askance.methods.selfrag.tokens import SEARCH, UNSUPPORTED, first_distribution, search_share
from askance.reproductions.selfrag_reading import Asked, Read, segment
from askance.reproductions.selfrag_strings import (
    Told,
    cited_text,
    says_nothing,
    segment_text,
    spaced,
    whole_text,
)
from askance.tree.abreast import abreast

_PROBE_TOKENS = 25


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A segment in the tree, or its root, which has the empty text that the first segments follow.

    Attributes:
        name: its place: the numbers of the segments that lead to it.
        before: what the prompts of its children have before its own text; not its parents' texts in all
            cases, see `children_of`.
        score: its own times its parent's.
    """

    name: str = "0"
    read: Read = Read("", searches=True)
    before: tuple[Part, ...] = ()
    score: float = 1.0
    hit: Hit | None = None
    parent: "Node | None" = None

    @property
    def path(self) -> list[Told]:
        """The segments down to this one, with their passages."""
        above = self.parent.path if self.parent else []
        return [*above, (self.read.text, self.hit.passage)] if self.hit else above


async def long_form(asked: Asked) -> tuple[str, tuple[Citation, ...]]:
    """The best node of the deepest level, and what leads to it; the second best where that says nothing.

    A biography has no second.
    """
    is_biography = asked.task == "biography"
    hits = await asked.found(await _decided_by_probe(asked))
    if not hits:
        text = segment_text(_first_paragraph(await asked.write_alone()))
        return (spaced(text) if is_biography else text), ()
    *_, deepest = await kept_levels(asked, hits)
    scores = {node.name: node.score for node in deepest}
    asked.run.trace.decide("choose", deepest[0].name, "the best of the deepest level", numbers=scores)
    paths = [supported_path(node, rejects=asked.knobs.reject_unsupported) for node in deepest]
    if is_biography:
        return spaced(whole_text(paths[0])), ()
    return cited_text(paths[1] if len(paths) > 1 and says_nothing(paths[0]) else paths[0])


async def kept_levels(asked: Asked, hits: Sequence[Hit]) -> list[list[Node]]:
    """The best nodes of each level that is not empty, the root's first.

    A level is the best of the children of the one above. Nodes without children are lost where any other
    beside them has some. One that is nothing but the end token ends the tree with the next level.
    """
    levels = [[Node()]]
    for _ in range(asked.knobs.max_segments):
        is_over = any(node.read.is_end for node in levels[-1])
        grown = await abreast(children_of(asked, node, hits) for node in levels[-1] if node.read.searches)
        children = [child for siblings in grown for child in siblings]
        level = sorted(children, key=lambda node: node.score, reverse=True)[: asked.knobs.beam_width]
        levels += [level] if level else []
        if is_over or not level:
            break
    return levels


def supported_path(node: Node, *, rejects: bool) -> list[Told]:
    """What leads to a node, and the node; segments without support go only now, if it `rejects` them."""
    return [(text, passage) for text, passage in node.path if not (rejects and UNSUPPORTED in text)]


async def _decided_by_probe(asked: Asked) -> Decided:
    """[Retrieval] must be written soon, and its share be above the threshold where the probe begins."""
    if asked.knobs.mode != "adaptive":
        return asked.decided_by_mode()
    probe = await asked.write(key=("decide",), max_tokens=_PROBE_TOKENS)
    if SEARCH not in _first_paragraph(probe.text):
        return asked.decided(False, f"{SEARCH} is not in the first paragraph of {_PROBE_TOKENS} tokens")
    threshold, probs = asked.knobs.threshold, first_distribution(probe, "retrieve")
    if threshold is None:
        return asked.decided(False, "there is no threshold")
    return asked.decided_by_share(search_share(probs), threshold, f"share of {SEARCH}", probs)


async def children_of(asked: Asked, parent: Node, hits: Sequence[Hit]) -> list[Node]:
    """A segment with each passage.

    What follows the first goes on from the parent's text and its own. What follows any other has, in place of
    the parent's text, that of the sibling before it: in the code one variable holds both.
    """
    behind = (*parent.before, *parent.read.behind)
    written = await abreast(
        asked.write_with(hit, behind=behind, key=("segment", *parent.name.split("."), number))
        for number, hit in enumerate(hits, start=1)
    )
    children = list[Node]()
    for number, (hit, each) in enumerate(zip(hits, written, strict=True), start=1):
        name, judged = f"{parent.name}.{number}", asked.judgements(each)
        read = segment(each, asked.shows_end(each), asked.vocabulary, asked.knobs.threshold)
        numbers = asked.segment_scores(each, judged)
        score = parent.score * numbers["score"]
        numbers |= {"score": score, "step": numbers["score"]}
        asked.show(name, segment_text(read.text).strip(), hit, numbers, judged)
        overwritten = children[-1].read.behind if children else parent.read.behind
        children.append(Node(name, read, (*parent.before, *overwritten), score, hit, parent))
    return children


def _first_paragraph(text: str) -> str:
    return text.split("\n\n")[0]
