"""Answer by the title of the best passage, without any model: a floor for questions about names."""

from dataclasses import dataclass
from typing import ClassVar

from askance.core.knobs import Knobs, knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Question


@dataclass(frozen=True, slots=True)
class Titled(Knobs):
    """One search with the question; the answer is the title of the passage at a rank."""

    rank: int = knob(1, "of the passage whose title is the answer", at_least=1)

    searches: ClassVar[str] = "once, with the question"

    @property
    def needs(self) -> Needs:
        return Needs(retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        hits = await run.retriever.search(question.text, self.rank)
        text = hits[-1].passage.title if len(hits) == self.rank else ""
        run.trace.commit(text)
        return Answer(text, text)
