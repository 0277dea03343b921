"""Self-RAG as its authors' code has it.

Short form: a draft decides, and the best answer is taken. Long form: a tree of segments whose scores are
multiplied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.concurrency import gather_or_cancel
from askance.core.errors import MissingAbility
from askance.core.parameters import SearchParameter, parameter
from askance.core.ports import Model, Needs, Run
from askance.core.types import Answer, Citation, Generation, Hit, Part, Question, Role, Signal
from askance.methods.selfrag import tokens
from askance.methods.selfrag.parameters import SelfragParameters
from askance.methods.selfrag.tasks import answer_options, named_option
from askance.methods.selfrag.tokens import (
    RETRIEVAL,
    first_distribution,
    has_reflection_tokens,
    retrieval_share,
)
from askance.reproductions import selfrag_reading as reading
from askance.reproductions.selfrag_reading import QueryContext, Read, Told

_Candidate = tuple[float, str, Hit]
"""Score, text and passage of an answer."""
_PROBE_TOKENS = 25


@dataclass(frozen=True, slots=True)
class SelfragAuthors(SelfragParameters):
    """Self-RAG in the reading of its authors' code (Asai et al. 2024), with its errors.

    In the short form a draft decides on the search, and the best answer of all passages is taken. In the long
    form segments grow in a tree, and their scores are multiplied. A model with the tokens is needed. What
    makes their code crash does not do so here; the page (docs/methods/selfrag.md) has the differences.
    """

    profile: Literal["code"] = parameter("code", "whose reading: the authors' code")
    fixed_weights: bool = parameter(True, "weights of 1, 1 and 0.5 and no sequence term, in the long form")

    known_as: ClassVar[str] = "selfrag"
    paper: ClassVar[str] = "Asai et al. 2024 (Self-RAG)"
    searches: ClassVar[str] = "when the model asks for it"
    calibrated: ClassVar[SearchParameter] = SearchParameter("threshold", belongs_to=("form",))

    @property
    def needs(self) -> Needs:
        signals: set[Signal] = {"logprob"} if self.use_seqscore else set()
        return Needs(frozenset(signals), retriever=self.mode != "never")

    keeps_markers: ClassVar[bool] = True

    def check_models(self, models: Mapping[Role, Model]) -> None:
        """Raise MissingAbility for a model that was not trained on reflection tokens."""
        model = models["answer"]
        if not has_reflection_tokens(model):
            raise MissingAbility(
                "method selfrag, set to profile=code, reads reflection tokens, each one token of the "
                f"vocabulary, and their probabilities; {model.name} does not have them: use a Self-RAG "
                "checkpoint (hf:selfrag/selfrag_llama2_7b), or profile=default, which asks any model in "
                "words."
            )

    async def answer(self, question: Question, run: Run) -> Answer:
        asked = QueryContext(self, question, run, fixed_weights=self.fixed_weights)
        text, citations = await (_short_form(asked) if self.form == "short" else long_form(asked))
        run.trace.commit(text)
        return Answer(
            text, named_option(text, question) if answer_options(question) else text.strip(), citations
        )


async def _short_form(asked: QueryContext) -> tuple[str, tuple[Citation, ...]]:
    """An answer for each passage, and the best of them; ties go to the better passage."""
    hits = await _found_by_draft(asked)
    if not hits:
        return _told(reading.closed_text(await asked.write_alone())), ()
    written = await gather_or_cancel(
        asked.write(hit=hit, key=("passage", number)) for number, hit in enumerate(hits, start=1)
    )
    answers = enumerate(zip(hits, written, strict=True), start=1)
    candidates = [_candidate(asked, number, hit, each) for number, (hit, each) in answers]
    if answer_options(asked.question):
        candidates = _greatest_sum(asked, candidates)
    _, text, hit = max(candidates, key=lambda candidate: candidate[0])
    text = _told(text)
    return text, (Citation(1, hit.passage, 0, len(text)),) if text else ()


async def _found_by_draft(asked: QueryContext) -> tuple[Hit, ...]:
    """A whole answer is written to be judged by its first token; with `mode=never` for nothing."""
    parameters = asked.parameters
    draft = await asked.write(key=("decide",)) if parameters.mode != "always" else None
    if draft is None or parameters.mode == "never":
        return await asked.found_by_mode()
    if parameters.threshold is None:
        searches = RETRIEVAL in draft.text
        return await asked.found(searches, f"the draft {'has' if searches else 'lacks'} a {RETRIEVAL}")
    probs = first_distribution(draft, "retrieve")
    kind = f"share of {RETRIEVAL} in logarithms"
    return await asked.found_by_share(reading.inverted_share(probs), parameters.threshold, kind, probs)


def _candidate(asked: QueryContext, number: int, hit: Hit, written: Generation) -> _Candidate:
    judged = asked.judgements(written)
    numbers = asked.answer_scores(written, judged)
    text = asked.text(written)
    asked.show(f"0.{number}", reading.closed_text(text).strip(), hit, numbers, judged)
    return numbers["score"], reading.closed_text(text) if answer_options(asked.question) else text, hit


def _told(text: str) -> str:
    """An answer as it is given: less one sign that begins it, then less tokens."""
    return reading.bare(reading.without_sign(text))


def _greatest_sum(asked: QueryContext, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """The answers with the text, letter by letter, whose scores add up to most."""
    sums = dict[str, float]()
    for score, text, _ in candidates:
        sums[text] = sums.get(text, 0.0) + score
    won = max(sums, key=lambda text: sums[text])
    asked.run.trace.decide("choose", won, "the scores of this answer add up to most", numbers=sums)
    return [candidate for candidate in candidates if candidate[1] == won]


@dataclass(frozen=True, slots=True, eq=False)
class BeamNode:
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
    parent: "BeamNode | None" = None

    @property
    def path(self) -> list[Told]:
        """The segments down to this one, with their passages."""
        above = self.parent.path if self.parent else []
        return [*above, (self.read.text, self.hit.passage)] if self.hit else above


async def long_form(asked: QueryContext) -> tuple[str, tuple[Citation, ...]]:
    """The best node of the deepest level, and what leads to it; the second best where that says nothing.

    A biography has no second.
    """
    is_biography = asked.task == "biography"
    hits = await _found_by_probe(asked)
    if not hits:
        text = reading.segment_text(_first_paragraph(await asked.write_alone()))
        return (reading.spaced(text) if is_biography else text), ()
    *_, deepest = await kept_levels(asked, hits)
    scores = {node.name: node.score for node in deepest}
    asked.run.trace.decide("choose", deepest[0].name, "the best of the deepest level", numbers=scores)
    paths = [supported_path(node, rejects=asked.parameters.reject_unsupported) for node in deepest]
    if is_biography:
        return reading.spaced(reading.whole_text(paths[0])), ()
    return reading.cited_text(paths[1] if len(paths) > 1 and not reading.whole_text(paths[0]) else paths[0])


async def kept_levels(asked: QueryContext, hits: Sequence[Hit]) -> list[list[BeamNode]]:
    """The best nodes of each level that is not empty, the root's first.

    A level is the best of the children of the one above. Nodes without children are lost where any other
    beside them has some. One that is nothing but the end token ends the tree with the next level.
    """
    levels = [[BeamNode()]]
    for _ in range(asked.parameters.max_segments):
        is_over = any(node.read.is_end for node in levels[-1])
        grown = await gather_or_cancel(
            children_of(asked, node, hits) for node in levels[-1] if node.read.searches
        )
        children = [child for siblings in grown for child in siblings]
        level = sorted(children, key=lambda node: node.score, reverse=True)[: asked.parameters.beam_width]
        levels += [level] if level else []
        if is_over or not level:
            break
    return levels


def supported_path(node: BeamNode, *, rejects: bool) -> list[Told]:
    """What leads to a node, and the node; segments without support go only now, if it `rejects` them."""
    return [(text, passage) for text, passage in node.path if not (rejects and tokens.NO_SUPPORT in text)]


async def _found_by_probe(asked: QueryContext) -> tuple[Hit, ...]:
    """[Retrieval] must be written soon, and its share be above the threshold where the probe begins."""
    if asked.parameters.mode != "adaptive":
        return await asked.found_by_mode()
    probe = await asked.write(key=("decide",), max_tokens=_PROBE_TOKENS)
    if RETRIEVAL not in _first_paragraph(probe.text):
        return await asked.found(
            False, f"{RETRIEVAL} is not in the first paragraph of {_PROBE_TOKENS} tokens"
        )
    threshold, probs = asked.parameters.threshold, first_distribution(probe, "retrieve")
    if threshold is None:
        return await asked.found(False, "there is no threshold")
    return await asked.found_by_share(retrieval_share(probs), threshold, f"share of {RETRIEVAL}", probs)


async def children_of(asked: QueryContext, parent: BeamNode, hits: Sequence[Hit]) -> list[BeamNode]:
    """A segment with each passage.

    What follows the first goes on from the parent's text and its own. What follows any other has, in place of
    the parent's text, that of the sibling before it: in the code one variable holds both.
    """
    behind = (*parent.before, *parent.read.behind)
    written = await gather_or_cancel(
        asked.write(*behind, hit=hit, key=("segment", *parent.name.split("."), number))
        for number, hit in enumerate(hits, start=1)
    )
    children = list[BeamNode]()
    for number, (hit, each) in enumerate(zip(hits, written, strict=True), start=1):
        name, judged = f"{parent.name}.{number}", asked.judgements(each)
        read = reading.segment(each, asked.shows_end(each), asked.vocabulary, asked.parameters.threshold)
        numbers = asked.segment_scores(each, judged)
        score = parent.score * numbers["score"]
        numbers |= {"score": score, "step": numbers["score"]}
        asked.show(name, reading.segment_text(read.text).strip(), hit, numbers, judged)
        overwritten = children[-1].read.behind if children else parent.read.behind
        children.append(BeamNode(name, read, (*parent.before, *overwritten), score, hit, parent))
    return children


def _first_paragraph(text: str) -> str:
    return text.split("\n\n")[0]
