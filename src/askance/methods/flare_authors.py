"""The two variants of FLARE in the DRAGIN authors' code: the knobs and the loop that they share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.knobs import SearchKnob, knob
from askance.core.ports import Model, Needs, Run
from askance.core.trace import Decided, WordSignal
from askance.core.types import Answer, Question, Want
from askance.methods.authors import Answering, Written, joined
from askance.methods.bounded import Bounded
from askance.methods.flare_masks import MASK, Masked
from askance.methods.wording import OWN as OWN_WORDING
from askance.methods.wording import Wording
from askance.text.linguistics import OWN as OWN_LINGUISTICS
from askance.text.linguistics import Linguistics


@dataclass(frozen=True, slots=True)
class AuthorsFlare(Bounded, ABC):
    """Drafts without passages; from the first doubtful sentence on, all is written again with passages.

    What a variant adds is `first_doubt`: which sentence of a draft is in doubt, and what of it is masked.
    """

    profile: Literal["code"] = knob("code", "whose reading: the DRAGIN authors' code")
    query: Literal["direct", "forward_all"] = knob(
        "direct", "direct: the sentence without what is masked; forward_all: question and text so far"
    )
    threshold: float = knob(0.08, "search when a sentence's 1 − p is above this", at_least=0)
    over_sentence: Literal["avg", "max", "min"] = knob("avg", "how a sentence's values are summed up")
    passages: int = knob(3, "passages per search", at_least=1)
    max_tokens: int = knob(128, "most new tokens of a draft, and the length that ends the answer", at_least=1)
    query_tokens: int = knob(64, "a query keeps this many of its last tokens", at_least=1)
    max_rounds: int = knob(100, "most drafts of one answer", at_least=1)
    elicit: bool = knob(True, "ask for the short answer where the text states none")
    elicit_tokens: int = knob(20, "most new tokens of an elicited answer", at_least=1)
    linguistics: Linguistics = knob(OWN_LINGUISTICS, "sentences and entities: own, or spacy:PIPELINE")
    wording: Wording = knob(OWN_WORDING, "examples and fixed lines of the prompt")

    calibrated: ClassVar[SearchKnob] = SearchKnob("threshold", belongs_to=("over_sentence",))

    @property
    def needs(self) -> Needs:
        return Needs(signals=frozenset({"logprob"}), capabilities=frozenset({"raw"}), retriever=True)

    @abstractmethod
    def first_doubt(self, draft: Written, model: Model) -> Masked | None:
        """The first sentence of `draft` above `threshold`, with its improbable parts masked."""

    async def answer(self, question: Question, run: Run) -> Answer:
        so_far = Answering(question, run, self.wording, self.passages, self.query_tokens)
        reason = f"there were {self.max_rounds} rounds"
        for step in range(self.max_rounds):
            chars_before, text = len(so_far.text), so_far.text.strip()
            draft = await so_far.write(
                f" {so_far.text}", self.max_tokens, ("draft", step), want=Want(logprob=True)
            )
            doubt = self.first_doubt(draft, run.model)
            if doubt is None:
                run.trace.decide("retrieve", "keep", "no sentence of the draft is improbable")
                so_far.replace(f"{text} {draft.text.strip()}")
            else:
                decision = self._decide(doubt, question, so_far.text, run)
                with run.trace.because(decision):
                    hits = await so_far.search(decision.query)
                    kept = doubt.kept.strip()
                    before = f" {so_far.text} {kept}"
                    again = await so_far.write(before, self.max_tokens, ("again", step), hits)
                so_far.replace(f"{text} {kept} {again.text.strip()}")
            ended = so_far.end_reason(chars_before, self.max_tokens)
            if ended:
                reason = ended
                break
        run.trace.decide("end", "stop", reason)
        return await so_far.answer(self)

    def _decide(self, doubt: Masked, question: Question, text: str, run: Run) -> Decided:
        direct = doubt.text.replace(MASK, "")
        return run.trace.decide(
            "retrieve",
            "search",
            f"a sentence is improbable by more than {self.threshold:g}",
            signal="1 − probability",
            threshold=self.threshold,
            words=tuple(
                WordSignal(piece, value, value > self.threshold)
                for piece, value in zip(doubt.pieces, doubt.values, strict=True)
            ),
            query=direct if self.query == "direct" else joined(question.text, text, doubt.kept),
            numbers={"kept characters": float(len(doubt.kept))},
        )
