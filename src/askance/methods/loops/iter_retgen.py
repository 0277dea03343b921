"""Iter-RetGen: the answer of each round is the query of the next, together with the question."""

from typing import ClassVar

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Run
from askance.core.types import Question
from askance.methods.common.generation_state import WritesAnswer


@checked_dataclass()
class IterRetgen(WritesAnswer):
    """Iter-RetGen: Shao et al. 2023, section 3.

    (The paper is "Enhancing Retrieval-Augmented Large Language Models with Iterative Retrieval-Generation
    Synergy".) The question is the first query. In each round, the model writes a whole answer from the
    passages of this round alone. This answer, followed by the question, is the query of the next round. The
    answer of the last round counts.
    """

    passages: int = parameter(5, "number of passages per search", at_least=1)
    max_rounds: int = parameter(3, "number of searches, each followed by an answer", at_least=1)

    paper: ClassVar[str] = "Shao et al. 2023 (Iter-RetGen)"
    searches: ClassVar[str] = "with each answer"
    continues: ClassVar[bool] = False

    async def answer(self, question: Question, run: Run) -> Answer:
        state, draft = self.start(question, run), ""
        for step in range(self.max_rounds):
            query = f"{draft} {question.text}".strip()
            why = (
                "the answer of the round before is part of the query" if step else "the question comes first"
            )
            await state.show_fitting(await state.search_for(query, self.passages, why) or state.hits)
            if step == self.max_rounds - 1 or not await state.has_room(self.max_tokens):
                break
            written = await state.write(self.max_tokens, ("draft", step))
            draft = " ".join(state.parse_text(written.text).text.split())
        await state.write_all()
        return await state.finish()
