"""Search once with the question, then answer."""

import math
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.errors import KnobError
from askance.core.knobs import knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, GenerateRequest, Hit, Prompt, Question, Sampling
from askance.methods.authors import Answering
from askance.methods.bounded import Bounded
from askance.methods.budget import has_room, most_that_fit
from askance.methods.eliciting import finished
from askance.methods.prompts import STOPS, Layout, answer_prompt, layout_needs
from askance.methods.searching import num_in_room, search_as_fits, search_with_question
from askance.methods.wording import OWN, Wording


@dataclass(frozen=True, slots=True)
class Single(Bounded):
    """One search with the question, one generation: "SR-RAG" of the DRAGIN paper (Su et al. 2024).

    Deviations of profile "default" from the authors' code: passages show their titles; no instruction line
    follows them; stop strings end the answer where an invented next question would begin. Profile "code" is
    the code: their layout with bodies of passages only, `max_tokens` tokens, an end token is text.

    Within `l_max` it is the vanilla RAG of Feng et al. 2025 (AirRAG): one call with as many of the best
    passages as there is room for, all that were asked for or, with `passages=0`, any number.
    """

    profile: Literal["default", "code"] = knob("default", "whose reading: ours, or the authors' code")
    passages: int = knob(
        3, "passages; 0: as many as l_max and the window have room for, up to most_passages", at_least=0
    )
    most_passages: int | None = knob(None, "the most of them; none: no other limit", at_least=1)
    max_tokens: int = knob(128, "most new tokens of the answer", at_least=1)
    query_tokens: int = knob(64, "a query keeps this many of its last tokens, in profile code", at_least=1)
    elicit: bool = knob(True, "ask for the short answer where the text states none")
    elicit_tokens: int = knob(20, "most new tokens of an elicited answer", at_least=1)
    layout: Layout = knob("auto", "raw text or the model's chat format; auto is raw where the model takes it")
    wording: Wording = knob(OWN, "examples and fixed lines of the prompt")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), SR-RAG"
    searches: ClassVar[str] = "once, with the question"

    def __post_init__(self) -> None:
        Bounded.__post_init__(self)
        if self.profile == "code" and not self.passages:
            raise KnobError("knob passages=0 of method single: the authors' code shows a number: 1 or more.")

    @property
    def needs(self) -> Needs:
        layout = "raw" if self.profile == "code" else self.layout
        return Needs(one_of=layout_needs(layout, goes_on=False), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        why = "this method searches once, with the question itself"
        if self.profile == "code":
            so_far = Answering(question, run, self.wording, self.passages, self.query_tokens)
            hits = await so_far.search_for(question.text, why)
            so_far.replace((await so_far.write("", self.max_tokens, ("answer",), hits)).text)
            return await so_far.answer(self)
        hits = await self._search(question, run, why)
        if not self.passages or self.l_max is not None:
            hits = self._fitting(question, run, hits)
        sampling = Sampling(self.max_tokens, stop=STOPS)
        (written,) = await run.model.generate(
            GenerateRequest(
                self._prompt(question, run, hits), sampling, key=("answer",), watch=run.trace.commit
            )
        )
        return await finished(self, question, run, written.text, ((0, hits),))

    async def _search(self, question: Question, run: Run, why: str) -> tuple[Hit, ...]:
        def search(k: int) -> Awaitable[tuple[Hit, ...]]:
            return search_with_question(question, run, k, why)

        def count(hits: Sequence[Hit]) -> int:
            return run.model.count(self._prompt(question, run, hits))

        if self.passages:
            return await search(self.passages)
        room = min(run.model.context_tokens - self.max_tokens, self.l_max or math.inf) - count(())
        return await search_as_fits(search, lambda hits: num_in_room(hits, room, count), self.most_passages)

    def _prompt(self, question: Question, run: Run, hits: Sequence[Hit]) -> Prompt:
        return answer_prompt(run.model, question, hits, layout=self.layout, wording=self.wording)

    def _fitting(self, question: Question, run: Run, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """As many of the best passages as one call has room for."""
        num_hits = most_that_fit(len(hits), lambda number: self._fits(question, run, hits[:number])) or 0
        if num_hits != len(hits):
            why = f"there is room for {num_hits} of {len(hits)}"
            run.trace.decide("passages", "fewer", why, numbers={"passages": float(num_hits)})
        return hits[:num_hits]

    def _fits(self, question: Question, run: Run, hits: Sequence[Hit]) -> bool:
        return has_room(run.model, self._prompt(question, run, hits), self.max_tokens)
