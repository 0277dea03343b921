"""Answering from the model's own memory."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.knobs import knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Question
from askance.methods.prompts import layout_needs
from askance.methods.writing import WritesAnswer


@dataclass(frozen=True, slots=True)
class ClosedBook(WritesAnswer):
    """One generation without any passage: "wo-RAG" of the DRAGIN paper (Su et al. 2024).

    Ours: stop strings end the answer where an invented next question would begin.
    """

    profile: Literal["default"] = knob("default", "whose reading: ours")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), wo-RAG"
    searches: ClassVar[str] = "never"

    @property
    def needs(self) -> Needs:
        return Needs(one_of=layout_needs(self.layout, goes_on=False))

    async def answer(self, question: Question, run: Run) -> Answer:
        writing = self.begin(question, run)
        await writing.write_all()
        return await writing.finish()
