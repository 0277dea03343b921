"""Search once with the question, then answer."""

import math
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.knobs import knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Hit, Prompt, Question
from askance.methods.budget import has_room, most_that_fit
from askance.methods.prompts import answer_prompt, layout_needs
from askance.methods.searching import num_in_room, search_as_fits, search_for
from askance.methods.writing import WritesAnswer


@dataclass(frozen=True, slots=True)
class Single(WritesAnswer):
    """One search with the question, one generation: "SR-RAG" of the DRAGIN paper (Su et al. 2024).

    Ours: passages show their titles; no instruction line follows them; stop strings end the answer where an
    invented next question would begin.

    Within `l_max` it is the vanilla RAG of Feng et al. 2025 (AirRAG): one call with as many of the best
    passages as there is room for, all that were asked for or, with `passages=0`, any number.
    """

    profile: Literal["default"] = knob("default", "whose reading: ours")
    passages: int = knob(
        3, "passages; 0: as many as l_max and the window have room for, up to most_passages", at_least=0
    )
    most_passages: int | None = knob(None, "the most of them; none: no other limit", at_least=1)

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), SR-RAG"
    searches: ClassVar[str] = "once, with the question"

    @property
    def needs(self) -> Needs:
        return Needs(one_of=layout_needs(self.layout, goes_on=False), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        writing, model = self.begin(question, run), run.model

        def search(k: int) -> Awaitable[tuple[Hit, ...]]:
            return search_for(question.text, run, k, "this method searches once, with the question itself")

        def prompt(hits: Sequence[Hit]) -> Prompt:
            return answer_prompt(model, question, hits, layout=self.layout, wording=self.wording)

        def num_fitting(hits: Sequence[Hit]) -> int:
            room = min(model.context_tokens - self.max_tokens, self.l_max or math.inf) - model.count(
                prompt(())
            )
            return num_in_room(hits, room, lambda shown: model.count(prompt(shown)))

        if self.passages:
            hits = await search(self.passages)
        else:
            hits = await search_as_fits(search, num_fitting, self.most_passages)
        if not self.passages or self.l_max is not None:
            most = most_that_fit(len(hits), lambda num: has_room(model, prompt(hits[:num]), self.max_tokens))
            if most != len(hits):
                why = f"there is room for {most or 0} of {len(hits)}"
                run.trace.decide("passages", "fewer", why, numbers={"passages": float(most or 0)})
            hits = hits[: most or 0]
        writing.show(hits)
        await writing.write_all()
        return await writing.finish()
