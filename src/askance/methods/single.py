"""Search once with the question, then answer."""

from dataclasses import dataclass
from typing import ClassVar

from askance.core.knobs import Knobs, knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Question, Sampling
from askance.methods.prompts import STOPS, Layout, answer_prompt
from askance.text.answers import short_answer
from askance.text.support import cite


@dataclass(frozen=True, slots=True)
class Single(Knobs):
    """One search with the question, one generation: "SR-RAG" of the DRAGIN paper (Su et al. 2024).

    Deviations from the authors' code: passages show their titles; no instruction line follows them; stop
    strings end the answer where an invented next question would begin.
    """

    passages: int = knob(3, "passages per search", at_least=1)
    max_tokens: int = knob(128, "most new tokens of the answer", at_least=1)
    layout: Layout = knob("auto", "raw text or the model's chat format; auto is raw where the model takes it")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), SR-RAG"

    @property
    def needs(self) -> Needs:
        return Needs(retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        decision = run.trace.decide(
            "retrieve", "search", "this method searches once, with the question itself", query=question.text
        )
        with run.trace.because(decision):
            hits = await run.retriever.search(question.text, self.passages)
        prompt = answer_prompt(run.model, question, hits, layout=self.layout)
        sampling = Sampling(self.max_tokens, stop=STOPS)
        (written,) = await run.model.generate(prompt, sampling, key=("answer",), watch=run.trace.commit)
        text = written.text.strip()
        return Answer(text, short_answer(text, question), cite(text, ((0, hits),)))
