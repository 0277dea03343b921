"""Self-RAG as its authors' code has it. Short form: a draft decides, and the best answer is taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.errors import MissingAbility
from askance.core.knobs import SearchKnob, knob
from askance.core.ports import Model, Needs, Run
from askance.core.trace import Decided
from askance.core.types import Answer, Citation, Generation, Hit, Question, Role, Signal
from askance.methods.selfrag.method import SelfragKnobs
from askance.methods.selfrag.tasks import named_option, options_of
from askance.methods.selfrag.tokens import SEARCH, first_distribution, has_reflection_tokens
from askance.reproductions.selfrag_long import long_form
from askance.reproductions.selfrag_reading import Asked, inverted_share
from askance.reproductions.selfrag_strings import bare, closed_text, without_sign
from askance.tree.abreast import abreast

_Candidate = tuple[float, str, Hit]
"""Score, text and passage of an answer."""


@dataclass(frozen=True, slots=True)
class SelfragAuthors(SelfragKnobs):
    """Self-RAG in the reading of its authors' code (Asai et al. 2024), with its errors.

    In the short form a draft decides on the search, and the best answer of all passages is taken. In the long
    form segments grow in a tree, and their scores are multiplied. A model with the tokens is needed. What
    makes their code crash does not do so here; the page (docs/methods/selfrag.md) has the differences.
    """

    profile: Literal["code"] = knob("code", "whose reading: the authors' code")
    fixed_weights: bool = knob(True, "weights of 1, 1 and 0.5 and no sequence term, in the long form")

    known_as: ClassVar[str] = "selfrag"
    paper: ClassVar[str] = "Asai et al. 2024 (Self-RAG)"
    searches: ClassVar[str] = "when the model asks for it"
    calibrated: ClassVar[SearchKnob] = SearchKnob("threshold", belongs_to=("form",))

    @property
    def needs(self) -> Needs:
        signals: set[Signal] = {"logprob"} if self.use_seqscore else set()
        return Needs(frozenset(signals), retriever=self.mode != "never")

    @property
    def keeps_markers(self) -> bool:
        """The text stays as it was written."""
        return True

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
        asked = Asked(self, question, run, fixed_weights=self.fixed_weights)
        text, citations = await (_short_form(asked) if self.form == "short" else long_form(asked))
        run.trace.commit(text)
        return Answer(text, named_option(text, question) if options_of(question) else text.strip(), citations)


async def _short_form(asked: Asked) -> tuple[str, tuple[Citation, ...]]:
    """An answer for each passage, and the best of them; ties go to the better passage."""
    hits = await asked.found(await _decided_by_draft(asked))
    if not hits:
        return _told(closed_text(await asked.write_alone())), ()
    written = await abreast(
        asked.write_with(hit, key=("passage", number)) for number, hit in enumerate(hits, start=1)
    )
    candidates = [
        _candidate(asked, number, hit, each)
        for number, (hit, each) in enumerate(zip(hits, written, strict=True), start=1)
    ]
    if options_of(asked.question):
        candidates = _greatest_sum(asked, candidates)
    _, text, hit = max(candidates, key=lambda candidate: candidate[0])
    text = _told(text)
    return text, (Citation(1, hit.passage, 0, len(text)),) if text else ()


async def _decided_by_draft(asked: Asked) -> Decided:
    """A whole answer is written to be judged by its first token; with `mode=never` for nothing."""
    knobs = asked.knobs
    if knobs.mode == "always":
        return asked.decided_by_mode()
    draft = await asked.write(key=("decide",))
    if knobs.mode == "never":
        return asked.decided_by_mode()
    if knobs.threshold is None:
        searches = SEARCH in draft.text
        return asked.decided(searches, f"the draft {'has' if searches else 'lacks'} a {SEARCH}")
    probs = first_distribution(draft, "retrieve")
    kind = f"share of {SEARCH} in logarithms"
    return asked.decided_by_share(inverted_share(probs), knobs.threshold, kind, probs)


def _candidate(asked: Asked, number: int, hit: Hit, written: Generation) -> _Candidate:
    judged = asked.judgements(written)
    numbers = asked.answer_scores(written, judged)
    text = asked.text(written)
    asked.show(f"0.{number}", closed_text(text).strip(), hit, numbers, judged)
    return numbers["score"], closed_text(text) if options_of(asked.question) else text, hit


def _told(text: str) -> str:
    """An answer as it is given: less one sign that begins it, then less tokens."""
    return bare(without_sign(text))


def _greatest_sum(asked: Asked, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """The answers with the text, letter by letter, whose scores add up to most."""
    sums = dict[str, float]()
    for score, text, _ in candidates:
        sums[text] = sums.get(text, 0.0) + score
    won = max(sums, key=lambda text: sums[text])
    asked.run.trace.decide("choose", won, "the scores of this answer add up to most", numbers=sums)
    return [candidate for candidate in candidates if candidate[1] == won]
