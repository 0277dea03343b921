"""IterDRAG: the model asks itself follow-up questions, and answers each from passages found for it."""

from dataclasses import dataclass
from typing import ClassVar

from askance.core.knobs import knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Question
from askance.methods.bounded import Bounded
from askance.methods.budget import NoRoom
from askance.methods.iterdrag_lines import Lines
from askance.methods.iterdrag_prompts import EXAMPLES, FINAL, FOLLOW_UP, INTERMEDIATE
from askance.methods.prompts import Layout, layout_needs


@dataclass(frozen=True, slots=True)
class Iterdrag(Bounded):
    """IterDRAG (Yue et al. 2024, arXiv 2410.04343), a baseline of AirRAG (Feng et al. 2025).

    (The paper is "Inference Scaling for Long-Context Retrieval Augmented Generation".) Behind the passages
    for the question, the model writes one line at a time, which begins in one of three ways. `Follow up:` is
    a query: what it finds joins the passages, and the next line must be an `Intermediate answer:`. `So the
    final answer is:` ends it, and is forced after `max_iters` lines of the model's own choice. Nothing keeps
    it from asking the same again; the trace counts that. `max_iters=0` is the paper's DRAG.

    Deviations: a beginning is forced where there is but one; where there are several, the line is read, and
    one with none of the three, or with nothing behind it, forces the end. The examples are our own, with two
    passages at most; passages are shown as they are in the index, those of a later search behind those of
    an earlier one, each search's best last. The paper tries numbers of passages and examples out for each
    L_max; `passages=0` takes what leaves a tenth of it, if each of all rounds finds as many. A line is
    written only if what is left of `l_max` has room for the last one behind it, which drops the passages of
    the lowest ranks as far as it must.
    """

    passages: int = knob(
        3, "passages per search; 0: as follows from l_max or the window, up to most_passages", at_least=0
    )
    most_passages: int | None = knob(None, "the most of them; none: no other limit", at_least=1)
    max_iters: int = knob(5, "most lines before the final answer is forced; 0: no follow-up", at_least=0)
    examples: int = knob(0, "worked examples in the prompt", at_least=0, at_most=len(EXAMPLES))
    line_tokens: int = knob(64, "most new tokens of a follow-up or an intermediate answer", at_least=1)
    answer_tokens: int = knob(64, "most new tokens of the final answer", at_least=1)
    layout: Layout = knob("auto", "raw text or the model's chat format; auto is raw where the model takes it")

    paper: ClassVar[str] = "Yue et al. 2024 (IterDRAG)"
    searches: ClassVar[str] = "with each follow-up question"

    @property
    def needs(self) -> Needs:
        return Needs(one_of=layout_needs(self.layout, goes_on=True), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        lines = Lines(self, question, run)
        await lines.search(question.text, "the first search is made with the question itself")
        try:
            reason = await self._ask_and_answer(lines)
        except NoRoom:
            reason = "there is no room for another line"
        if lines.final is None:
            await lines.conclude()
        numbers = {"follow-ups": len(lines.asked), "repeated follow-ups": lines.num_repeats}
        run.trace.decide("end", "stop", reason, numbers={name: float(n) for name, n in numbers.items()})
        return lines.answer()

    async def _ask_and_answer(self, lines: Lines) -> str:
        """Write lines until one is final or none may follow; the reason."""
        for step in range(self.max_iters):
            beginning, said = await lines.write("", ("line", step))
            if not beginning or not said:
                return "the model wrote neither a follow-up nor an intermediate or final answer"
            lines.keep(beginning, said)
            if beginning == FINAL:
                return "the model gave its final answer"
            if beginning == FOLLOW_UP:
                lines.asked.append(said)
                await lines.search(said, "the model asks a follow-up")
                _, answer = await lines.write(INTERMEDIATE, ("intermediate", step))
                lines.keep(INTERMEDIATE, answer)
        return f"there were {self.max_iters} lines of the model's own"
