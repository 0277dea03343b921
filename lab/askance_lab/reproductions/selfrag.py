"""Self-RAG as its authors' code runs it.

In the short form, retrieval tokens in a draft decide whether to search, and the answer with the best score is
returned. In the long form, segments form a tree, and the scores along a path are multiplied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from askance.core.answers import Answer, Citation
from askance.core.concurrency import gather_or_cancel
from askance.core.errors import MissingAbility
from askance.core.parameters import SearchParameter, checked_dataclass
from askance.core.ports import Needs, RoleModel, Run, language_model
from askance.core.types import Generation, Hit, Part, Question, Role, Signal
from askance.methods.selfrag import tokens
from askance.methods.selfrag.prompts import answer_options, named_option
from askance.methods.selfrag.tokens import (
    RETRIEVAL,
    first_distribution,
    has_reflection_tokens,
    retrieval_share,
)
from askance_lab.reproductions import selfrag_outputs as outputs
from askance_lab.reproductions.selfrag_outputs import ParsedSegment, QueryContext, SegmentAndPassage

_Candidate = tuple[float, str, Hit]
"""The score, text and passage of an answer."""
_PROBE_TOKENS = 25


@checked_dataclass()
class SelfragAuthors(outputs.AuthorsParameters):
    """Self-RAG as its authors' code runs it (Asai et al. 2024), errors included.

    In the short form, retrieval tokens in a draft decide whether to search, and the best answer over all
    passages is returned. In the long form, segments form a tree, and the scores along a path are multiplied.
    The model must have the reflection tokens. Input that crashes the authors' code is accepted here, and
    docs/methods/selfrag.md lists the differences.
    """

    paper: ClassVar[str] = "Asai et al. 2024 (Self-RAG)"
    searches: ClassVar[str] = "when the model asks for it"
    calibrated: ClassVar[SearchParameter] = SearchParameter("threshold", belongs_to=("form",))

    @property
    def needs(self) -> Needs:
        signals: set[Signal] = {"logprob"} if self.use_seqscore else set()
        return Needs(frozenset(signals), retriever=self.mode != "never")

    keeps_markers: ClassVar[bool] = True

    def check_models(self, models: Mapping[Role, RoleModel]) -> None:
        """Raise MissingAbility if the model was not trained on reflection tokens."""
        model = language_model(models["answer"])
        if not has_reflection_tokens(model):
            raise MissingAbility(
                "method selfrag_authors reads reflection tokens, each one token of the vocabulary, and their "
                f"probabilities; {model.name} does not have them: use a Self-RAG model (bundled:selfrag, "
                "hf:selfrag/selfrag_llama2_7b), or the method selfrag, which asks any model in words."
            )

    async def answer(self, question: Question, run: Run) -> Answer:
        context = QueryContext(self, question, run)
        text, citations = await (_short_form(context) if self.form == "short" else long_form(context))
        run.trace.commit(text)
        short = named_option(text, question) if answer_options(question) else text.strip()
        return Answer(text, short, citations)


async def _short_form(context: QueryContext) -> tuple[str, tuple[Citation, ...]]:
    """Return the best of the answers that the model writes with one passage each, and its citation.

    In a tie, the higher-ranked passage wins. Without a search, the model answers without passages.
    """
    hits = await _search_by_draft(context)
    if not hits:
        return _final_text(outputs.closed_answer(await context.write_alone())), ()
    written = await gather_or_cancel(
        context.write(hit=hit, key=("passage", number)) for number, hit in enumerate(hits, start=1)
    )
    answers = enumerate(zip(hits, written, strict=True), start=1)
    candidates = [_candidate(context, number, hit, answer) for number, (hit, answer) in answers]
    if answer_options(context.question):
        candidates = _greatest_sum(context, candidates)
    _, text, hit = max(candidates, key=lambda candidate: candidate[0])
    text = _final_text(text)
    return text, (Citation(1, hit.passage, 0, len(text)),) if text else ()


async def _search_by_draft(context: QueryContext) -> tuple[Hit, ...]:
    """Search if the retrieval tokens in a draft of the answer ask for it, and return the passages found.

    With `mode=always`, no draft is made. With `mode=never`, the draft is made but ignored.
    """
    parameters = context.parameters
    draft = await context.write(key=("decide",)) if parameters.mode != "always" else None
    if draft is None or parameters.mode == "never":
        return await context.search_by_mode()
    if parameters.threshold is None:
        searches = RETRIEVAL in draft.text
        return await context.record_search(
            searches, f"the draft {'has' if searches else 'lacks'} a {RETRIEVAL}"
        )
    probs = first_distribution(draft, "retrieve")
    kind = f"share of {RETRIEVAL} in logarithms"
    return await context.search_by_share(
        outputs.log_retrieval_share(probs), parameters.threshold, kind, probs
    )


def _candidate(context: QueryContext, number: int, hit: Hit, written: Generation) -> _Candidate:
    judged = context.judgements(written)
    numbers = context.answer_scores(written, judged)
    text = context.text_with_end(written)
    context.show(f"0.{number}", outputs.closed_answer(text).strip(), hit, numbers, judged)
    return numbers["score"], outputs.closed_answer(text) if answer_options(context.question) else text, hit


def _final_text(text: str) -> str:
    """Remove a leading "#" or ":" from an answer, then all control tokens, and return the rest."""
    return outputs.without_control_tokens(outputs.without_leading_sign(text))


def _greatest_sum(context: QueryContext, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Group answers by their exact text, and return the group with the greatest sum of scores."""
    sums = dict[str, float]()
    for score, text, _ in candidates:
        sums[text] = sums.get(text, 0.0) + score
    won = max(sums, key=lambda text: sums[text])
    context.run.trace.decide("choose", won, "the scores of this answer add up to most", numbers=sums)
    return [candidate for candidate in candidates if candidate[1] == won]


@dataclass(frozen=True, slots=True, eq=False)
class BeamNode:
    """A node of the tree: a segment, or the root, whose text is empty.

    Attributes:
        name: The numbers of the segments that lead to the node, joined by dots.
        before: The parts that precede the node's own text in the prompts of its children. They are not always
            the texts of the node's ancestors (see `expand_node`).
        score: The segment's score times the parent's score.
    """

    name: str = "0"
    read: ParsedSegment = ParsedSegment("", searches=True)
    before: tuple[Part, ...] = ()
    score: float = 1.0
    hit: Hit | None = None
    parent: "BeamNode | None" = None

    @property
    def path(self) -> list[SegmentAndPassage]:
        """The segments from the root to this node, with their passages."""
        above = self.parent.path if self.parent else []
        return [*above, (self.read.text, self.hit.passage)] if self.hit else above


async def long_form(context: QueryContext) -> tuple[str, tuple[Citation, ...]]:
    """Return the text and citations of the best path to the deepest level.

    If that path has no text, the second-best path is used, except for a biography.
    """
    is_biography = context.task == "biography"
    hits = await _search_by_probe(context)
    if not hits:
        text = outputs.segment_text(_first_paragraph(await context.write_alone()))
        return (outputs.with_sentence_spaces(text) if is_biography else text), ()
    *_, deepest = await grow_tree(context, hits)
    scores = {node.name: node.score for node in deepest}
    context.run.trace.decide("choose", deepest[0].name, "the best of the deepest level", numbers=scores)
    paths = [supported_path(node, rejects=context.parameters.reject_unsupported) for node in deepest]
    if is_biography:
        return outputs.with_sentence_spaces(outputs.whole_text(paths[0])), ()
    return outputs.alce_answer(paths[1] if len(paths) > 1 and not outputs.whole_text(paths[0]) else paths[0])


async def grow_tree(context: QueryContext, hits: Sequence[Hit]) -> list[list[BeamNode]]:
    """Return the best nodes of each level that is not empty, starting with the root.

    A level consists of the best children of the level above. A path that has ended is dropped if another path
    continues. If the text of a node is only the end token, the next level is the last.
    """
    levels = [[BeamNode()]]
    for _ in range(context.parameters.max_segments):
        is_over = any(node.read.is_end for node in levels[-1])
        grown = await gather_or_cancel(
            expand_node(context, node, hits) for node in levels[-1] if node.read.searches
        )
        children = [child for siblings in grown for child in siblings]
        level = sorted(children, key=lambda node: node.score, reverse=True)[: context.parameters.beam_width]
        levels += [level] if level else []
        if is_over or not level:
            break
    return levels


def supported_path(node: BeamNode, *, rejects: bool) -> list[SegmentAndPassage]:
    """Return the segments from the root to a node, with their passages.

    With `rejects`, segments that the model has judged to have no support are left out.
    """
    return [(text, passage) for text, passage in node.path if not (rejects and tokens.NO_SUPPORT in text)]


async def _search_by_probe(context: QueryContext) -> tuple[Hit, ...]:
    """Search if a short generated text, the probe, asks for it, and return the passages found.

    The probe asks for a search if its first paragraph contains [Retrieval] and the probability of [Retrieval]
    at its first token, relative to [No Retrieval], exceeds the threshold (`retrieval_share`).
    """
    if context.parameters.mode != "adaptive":
        return await context.search_by_mode()
    probe = await context.write(key=("decide",), max_tokens=_PROBE_TOKENS)
    if RETRIEVAL not in _first_paragraph(probe.text):
        return await context.record_search(
            False, f"{RETRIEVAL} is not in the first paragraph of {_PROBE_TOKENS} tokens"
        )
    threshold, probs = context.parameters.threshold, first_distribution(probe, "retrieve")
    if threshold is None:
        return await context.record_search(False, "there is no threshold")
    return await context.search_by_share(retrieval_share(probs), threshold, f"share of {RETRIEVAL}", probs)


async def expand_node(context: QueryContext, parent: BeamNode, hits: Sequence[Hit]) -> list[BeamNode]:
    """Return the children of a node, one segment for each passage.

    In prompts below the first child, the text of the child follows that of the parent. In prompts below any
    other child, the text of the previous sibling replaces that of the parent, because the authors' code
    stores both in one variable.
    """
    behind = (*parent.before, *parent.read.behind)
    written = await gather_or_cancel(
        context.write(*behind, hit=hit, key=("segment", *parent.name.split("."), number))
        for number, hit in enumerate(hits, start=1)
    )
    children = list[BeamNode]()
    for number, (hit, each) in enumerate(zip(hits, written, strict=True), start=1):
        name, judged = f"{parent.name}.{number}", context.judgements(each)
        read = outputs.parse_segment(
            each, context.shows_end(each), context.vocabulary, context.parameters.threshold
        )
        numbers = context.segment_scores(each, judged)
        score = parent.score * numbers["score"]
        numbers |= {"score": score, "step": numbers["score"]}
        context.show(name, outputs.segment_text(read.text).strip(), hit, numbers, judged)
        overwritten = children[-1].read.behind if children else parent.read.behind
        children.append(BeamNode(name, read, (*parent.before, *overwritten), score, hit, parent))
    return children


def _first_paragraph(text: str) -> str:
    return text.split("\n\n")[0]
