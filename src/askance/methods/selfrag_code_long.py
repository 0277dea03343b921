"""Self-RAG in the reading of its authors' code. Long form: a tree of segments whose scores are multiplied."""

from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.trace import Decided
from askance.core.types import Citation, Hit, TokenIds
from askance.methods.reflection_scores import search_share
from askance.methods.reflection_tokens import SEARCH, UNSUPPORTED
from askance.methods.selfrag_code_asking import Asked
from askance.methods.selfrag_code_output import Told, cited_text, line, spaced
from askance.methods.selfrag_code_reading import (
    Read,
    first_distribution,
    judgements,
    segment,
    segment_scores,
)
from askance.tree.abreast import abreast

_PROBE_TOKENS = 25


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A segment in the tree, or its root, which has the empty text that the first segments follow.

    Attributes:
        name: its place: the numbers of the segments that lead to it.
        before: what the prompts of its children have before its own text; not its parents' texts in all
            cases, see `_children`.
        score: its own times its parent's.
    """

    name: str = "0"
    read: Read = Read("", (), searches=True, is_empty=False)
    before: TokenIds = ()
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

    A level is the best of the children of the one above. Nodes without children are lost where any other
    beside them has some. One that ended at once ends the tree with the next level.
    """
    hits = await asked.found(await _decided_by_probe(asked))
    if not hits:
        text = line(_first_paragraph(await asked.write_alone()))
        return spaced(text) if asked.selfrag.task == "biography" else text, ()
    level = deepest = [Node()]
    for _ in range(asked.selfrag.max_segments):
        is_over = any(node.read.is_empty for node in level)
        grown = await abreast(_children(asked, node, hits) for node in level if node.read.searches)
        children = [child for siblings in grown for child in siblings]
        level = sorted(children, key=lambda node: node.score, reverse=True)[: asked.selfrag.beam_width]
        deepest = level or deepest
        if is_over or not level:
            break
    scores = {node.name: node.score for node in deepest}
    asked.run.trace.decide("choose", deepest[0].name, "the best of the deepest level", numbers=scores)
    best, *others = [_output(asked, node) for node in deepest[:2]]
    return best if best[0] or not others else others[0]


async def _decided_by_probe(asked: Asked) -> Decided:
    """[Retrieval] must be written soon, and its share be above the threshold where the probe begins."""
    if asked.selfrag.mode != "adaptive":
        return asked.decided_by_mode()
    probe = await asked.write(key=("decide",), max_tokens=_PROBE_TOKENS)
    if SEARCH not in _first_paragraph(asked.words(probe)):
        return asked.decided(False, f"{SEARCH} is not in the first paragraph of {_PROBE_TOKENS} tokens")
    threshold, probs = asked.selfrag.threshold, first_distribution(probe, "retrieve")
    if threshold is None:
        return asked.decided(False, "there is no threshold")
    return asked.decided_by_share(search_share(probs), threshold, f"share of {SEARCH}", probs)


async def _children(asked: Asked, parent: Node, hits: Sequence[Hit]) -> list[Node]:
    """A segment with each passage.

    What follows the first goes on from the parent's text and its own. What follows any other has, in place of
    the parent's text, that of the sibling before it: in the code one variable holds both.
    """
    behind = (*parent.before, *parent.read.ids)
    written = await abreast(
        asked.write_with(hit, behind=behind, key=("segment", *parent.name.split("."), number))
        for number, hit in enumerate(hits, start=1)
    )
    children = list[Node]()
    for number, (hit, each) in enumerate(zip(hits, written, strict=True), start=1):
        name, judged = f"{parent.name}.{number}", judgements(each, asked.vocabulary)
        read = segment(each, asked.vocabulary, asked.selfrag.threshold)
        numbers = segment_scores(judged)
        score = parent.score * numbers["score"]
        asked.show(name, line(read.text), hit, {**numbers, "score": score, "step": numbers["score"]}, judged)
        overwritten = children[-1].read.ids if children else parent.read.ids
        children.append(Node(name, read, (*parent.before, *overwritten), score, hit, parent))
    return children


def _output(asked: Asked, node: Node) -> tuple[str, tuple[Citation, ...]]:
    """As their script for the task writes it; segments without support go only now."""
    rejects = asked.selfrag.reject_unsupported
    path = [(text, passage) for text, passage in node.path if not (rejects and UNSUPPORTED in text)]
    if asked.selfrag.task == "biography":
        return spaced(line(" ".join(text for text, _ in path))), ()
    return cited_text(path)


def _first_paragraph(text: str) -> str:
    return text.split("\n\n")[0]
