"""Auto-RAG: a dialogue with the retriever, in which the model refines its query until it can answer."""

import re
from typing import ClassVar

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Needs, Run
from askance.core.token_ledger import has_room
from askance.core.types import GenerateRequest, Question, Sampling, Span, Turn, untrusted
from askance.methods.common.generation_state import GenerationState
from askance.methods.common.prompts import OWN, Layout, in_layout, layout_needs, question_spans
from askance.methods.common.token_limit import TokenLimited

INSTRUCTION = (
    "Find out the answer to the question in a dialogue with a search engine. Say what you need to know, and "
    'end your turn with "Query:" and a query. The next turn shows what was found. If that is not enough, '
    'end with "Refined Query:" and another query. As soon as you know the answer, write "Final Answer:" and '
    "the answer in a few words."
)
_QUERY = re.compile(r"(?:refined\s+)?query\s*:", re.IGNORECASE)
_FINAL = re.compile(r".*final answer(?:\s+is)?\s*:|.*?final answer(?:\s+is\b)?", re.IGNORECASE)
"""The last "Final Answer:" or, without a colon, the first "final answer"."""
_STOPS = ("\nRetrieved Document", "\nQuestion:")


@checked_dataclass()
class AutoRag(TokenLimited):
    """Auto-RAG: Yu, Zhang and Feng 2024, section 3.

    (The paper is "Auto-RAG: Autonomous Retrieval-Augmented Generation for Large Language Models".) In each
    turn, the model either names a query or gives its final answer. The best passages that have not been shown
    yet are the next turn. A turn with neither is followed by a search with the query before it, at first the
    question. After `max_rounds` searches, the model has one more turn, which counts as its answer.
    """

    passages: int = parameter(2, "number of new passages per search", at_least=1)
    max_rounds: int = parameter(10, "maximum number of searches", at_least=1)
    max_tokens: int = parameter(200, "maximum number of new tokens of a turn", at_least=1)
    layout: Layout = parameter("auto", "raw text, or the model's chat format; auto prefers raw text")

    paper: ClassVar[str] = "Yu et al. 2024 (Auto-RAG)"
    searches: ClassVar[str] = "when the model names a query"

    @property
    def needs(self) -> Needs:
        return Needs(one_of=layout_needs(self.layout, continues=False), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        state, query, number = GenerationState(question, run, False, self.layout, OWN), question.text, 0
        turns, said = [Turn("system", (Span(INSTRUCTION),))], ""
        turns.append(Turn("user", (Span("Question: "), *question_spans(question))))
        for step in range(self.max_rounds + 1):
            parts = [span for turn in turns for span in (*turn.parts, Span("\n"))]
            prompt, num_tokens = in_layout(self.layout, run.model, parts, turns, ""), self.max_tokens
            if step and not await has_room(run.model, prompt, num_tokens):
                state.stop_reason = "there is no room for another turn"
                break
            sampling, on_text = Sampling(num_tokens, stop=_STOPS), run.trace.draft
            request = GenerateRequest(prompt, sampling, key=("turn", step), on_text=on_text)
            (written,) = await run.model.generate(request)
            said = " ".join(state.parse_text(written.text).text.split())
            (_, *named), final = _QUERY.split(said), _FINAL.match(said)
            if final and not named:
                state.stop_reason = "the model gives its final answer"
            elif step == self.max_rounds:
                state.stop_reason = f"there were {step} searches"
            if state.stop_reason:
                break
            number, query = number + bool(named), (named and named[-1].strip()) or query
            why = "the model names a query" if named else "the model names neither a query nor its answer"
            hits = await state.search_for(query, self.passages, why, state.shown_ids)
            state.show_passages(hits)
            found = untrusted(" ".join(word for hit in hits for word in hit.passage.text.split()))
            turns.append(Turn("assistant", (untrusted(said),)))
            turns.append(Turn("user", (Span(f"Retrieved Document_{number}: "), found)))
        final = _FINAL.match(said)
        return state.conclude(_QUERY.split(said[final.end() if final else 0 :])[0])
