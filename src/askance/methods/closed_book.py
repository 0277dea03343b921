"""Answering from the model's own memory."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.knobs import knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, GenerateRequest, Question, Sampling
from askance.methods.authors import Answering
from askance.methods.bounded import Bounded
from askance.methods.eliciting import finished
from askance.methods.prompts import STOPS, Layout, answer_prompt, layout_needs
from askance.methods.wording import OWN, Wording


@dataclass(frozen=True, slots=True)
class ClosedBook(Bounded):
    """One generation without any passage: "wo-RAG" of the DRAGIN paper (Su et al. 2024).

    Deviation of profile "default" from the authors' code: stop strings end the answer where an invented next
    question would begin. Profile "code" is the code: their layout, `max_tokens` tokens, an end token is text.
    """

    profile: Literal["default", "code"] = knob("default", "whose reading: ours, or the authors' code")
    max_tokens: int = knob(128, "most new tokens of the answer", at_least=1)
    elicit: bool = knob(True, "ask for the short answer where the text states none")
    elicit_tokens: int = knob(20, "most new tokens of an elicited answer", at_least=1)
    layout: Layout = knob("auto", "raw text or the model's chat format; auto is raw where the model takes it")
    wording: Wording = knob(OWN, "examples and fixed lines of the prompt")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), wo-RAG"
    searches: ClassVar[str] = "never"

    @property
    def needs(self) -> Needs:
        layout = "raw" if self.profile == "code" else self.layout
        return Needs(one_of=layout_needs(layout, goes_on=False))

    async def answer(self, question: Question, run: Run) -> Answer:
        if self.profile == "code":
            so_far = Answering(question, run, self.wording)
            so_far.replace((await so_far.write("", self.max_tokens, ("answer",))).text)
            return await so_far.answer(self)
        prompt = answer_prompt(run.model, question, layout=self.layout, wording=self.wording)
        sampling = Sampling(self.max_tokens, stop=STOPS)
        (written,) = await run.model.generate(
            GenerateRequest(prompt, sampling, key=("answer",), watch=run.trace.commit)
        )
        return await finished(self, question, run, written.text, ())
