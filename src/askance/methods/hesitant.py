"""A trigger of one's own: search once, if the model hesitates in the draft that it writes from memory."""

from typing import ClassVar

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Run
from askance.core.types import Question, Signal, Want
from askance.methods.common.generation_state import WritesAnswer
from askance.text.answers import AnswerEnd


@checked_dataclass()
class Hesitant(WritesAnswer):
    """Draft an answer from memory, and search with the question if the mean entropy of its tokens is high."""

    threshold: float = parameter(
        1.0, "search if the mean entropy (nats) of the draft exceeds this", at_least=0
    )
    passages: int = parameter(3, "number of passages", at_least=1)

    paper: ClassVar[str] = "none"
    searches: ClassVar[str] = "once, if the draft is uncertain"
    reads: ClassVar[frozenset[Signal]] = frozenset({"entropy"})

    async def answer(self, question: Question, run: Run) -> Answer:
        state = self.start(question, run)
        draft = await state.write(self.max_tokens, ("draft",), Want(entropy=True), AnswerEnd())
        entropies = [token.entropy or 0.0 for token in draft.tokens]
        mean = sum(entropies) / max(1, len(entropies))
        decision = run.trace.decide(
            "retrieve",
            "search" if mean > self.threshold else "keep",
            f"the mean entropy of the draft is {mean:.2f}, the threshold {self.threshold:g}",
            query=question.text,
            threshold=self.threshold,
            numbers={"mean entropy": mean},
        )
        if mean <= self.threshold:
            state.keep_piece(draft)
            return await state.finish()
        state.show_passages(await state.search(decision, self.passages))
        with run.trace.because(decision):
            await state.write_all()
        return await state.finish()
