"""Answering from the model's own memory."""

from dataclasses import dataclass
from typing import ClassVar

from askance.core.knobs import Knobs, knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Question, Sampling
from askance.methods.prompts import STOPS, Layout, answer_prompt
from askance.text.answers import short_answer


@dataclass(frozen=True, slots=True)
class ClosedBook(Knobs):
    """One generation without any passage: "wo-RAG" of the DRAGIN paper (Su et al. 2024).

    Deviation from the authors' code: stop strings end the answer where an invented next question would begin.
    """

    max_tokens: int = knob(128, "most new tokens of the answer", at_least=1)
    layout: Layout = knob("auto", "raw text or the model's chat format; auto is raw where the model takes it")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), wo-RAG"

    @property
    def needs(self) -> Needs:
        return Needs()

    async def answer(self, question: Question, run: Run) -> Answer:
        prompt = answer_prompt(run.model, question, layout=self.layout)
        sampling = Sampling(self.max_tokens, stop=STOPS)
        (written,) = await run.model.generate(prompt, sampling, key=("answer",), watch=run.trace.commit)
        return Answer(written.text.strip(), short_answer(written.text, question))
