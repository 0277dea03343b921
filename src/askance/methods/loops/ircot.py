"""IRCoT: each sentence of the reasoning is the next query, and a reader answers from all passages found."""

import re
from typing import ClassVar

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Run
from askance.core.types import Question
from askance.methods.common.generation_state import GenerationState, WritesAnswer
from askance.text.answers import SentenceEnd

_ENDS = re.compile(r"answer is:?\s*\S", re.IGNORECASE)
_CONCLUDES = re.compile(
    r"^(?:(?:thus|so)[ ,]|that is,|therefore|hence)|\d[\d,.]*\s*[-+]\s*\d[\d,.]*\s*=", re.IGNORECASE
)
"""Signs of a sentence that only concludes or computes, and so is no query (the authors' code)."""


@checked_dataclass()
class Ircot(WritesAnswer):
    """IRCoT: Trivedi et al. 2023, section 3 and figure 2.

    (The paper is "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step
    Questions".) The first query is the question. The model then writes its reasoning sentence by sentence,
    and the last sentence is the next query. All passages stay in the prompt, up to `max_passages`. The loop
    ends with a sentence that says "answer is", or after `max_sentences`. Last, a reader answers the question
    from all passages, without the reasoning.
    """

    passages: int = parameter(4, "number of passages per search", at_least=1)
    max_passages: int = parameter(15, "maximum number of passages in the prompt", at_least=1)
    max_sentences: int = parameter(8, "maximum number of sentences of the reasoning", at_least=1)

    paper: ClassVar[str] = "Trivedi et al. 2023 (IRCoT)"
    searches: ClassVar[str] = "with each sentence"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, query = self.start(question, run), question.text
        for step in state.rounds(self.max_sentences):
            if not step or not (state.obstacle_to(query) or len(state.hits) == self.max_passages):
                await self._collect(state, query)
            if not await state.has_room(self.max_tokens):
                state.stop_reason = "there is no room for another sentence and the answer"
                continue
            sentence = await state.write(self.max_tokens, ("sentence", step), until=SentenceEnd())
            state.notes += sentence.text
            plain = " ".join(state.parse_text(sentence.text).text.split())
            if _ENDS.search(plain) or not plain:
                state.stop_reason = "the reasoning states its answer" if plain else "the reasoning has ended"
            query = query if _CONCLUDES.search(plain) else plain
        state.notes = ""
        await state.show_fitting(state.hits)
        await state.write_all()
        return await state.finish()

    async def _collect(self, state: GenerationState, query: str) -> None:
        """Search for a query, and append the new passages to those in the prompt."""
        why = "each sentence of the reasoning is searched for" if state.notes else "the question comes first"
        found = await state.search_for(query, self.passages, why)
        new = [hit for hit in found if hit.passage.id not in state.shown_ids]
        state.show_passages((*state.hits, *new)[: self.max_passages])
