"""Self-RAG in the reading of its authors' code. Short form: a draft decides, the best answer is taken."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from askance.core.errors import MissingAbility
from askance.core.ports import Model, Run
from askance.core.trace import Decided
from askance.core.types import Answer, Citation, Generation, Hit, Question
from askance.methods.selfrag.options import named_option, options_of
from askance.methods.selfrag.tokens import SEARCH
from askance.methods.selfrag.vocabulary import has_reflection_tokens
from askance.reproductions.selfrag_asking import Asked
from askance.reproductions.selfrag_long import long_form
from askance.reproductions.selfrag_output import bare, closed_text, without_sign
from askance.reproductions.selfrag_reading import (
    answer_scores,
    first_distribution,
    inverted_share,
    judgements,
)
from askance.tree.abreast import abreast

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag

_Candidate = tuple[float, str, Hit]
"""Score, text and passage of an answer."""


def check_model(model: Model) -> None:
    """Raises MissingAbility for a model that was not trained on reflection tokens."""
    if not has_reflection_tokens(model):
        raise MissingAbility(
            "method selfrag, set to profile=code, reads reflection tokens, each one token of the vocabulary, "
            f"and their probabilities; {model.name} does not have them: use a Self-RAG checkpoint "
            "(hf:selfrag/selfrag_llama2_7b), or profile=default, which asks any model in words."
        )


async def answer(selfrag: "Selfrag", question: Question, run: Run) -> Answer:
    """In either form."""
    asked = Asked(selfrag, question, run)
    text, citations = await (_short_form(asked) if selfrag.form == "short" else long_form(asked))
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
    selfrag = asked.selfrag
    if selfrag.mode == "always":
        return asked.decided_by_mode()
    draft = await asked.write(key=("decide",))
    if selfrag.mode == "never":
        return asked.decided_by_mode()
    if selfrag.threshold is None:
        searches = SEARCH in draft.text
        return asked.decided(searches, f"the draft {'has' if searches else 'lacks'} a {SEARCH}")
    probs = first_distribution(draft, "retrieve")
    kind = f"share of {SEARCH} in logarithms"
    return asked.decided_by_share(inverted_share(probs), selfrag.threshold, kind, probs)


def _candidate(asked: Asked, number: int, hit: Hit, written: Generation) -> _Candidate:
    judged = judgements(written, asked.vocabulary)
    numbers = answer_scores(asked.selfrag, written, judged)
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
