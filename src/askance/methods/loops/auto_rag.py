"""Auto-RAG: a dialogue with the retriever, in which the model refines its query until it can answer."""

import re
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Model, Needs, Run
from askance.core.token_ledger import has_room
from askance.core.types import GenerateRequest, Hit, Prompt, Question, Sampling, Span, Turn, untrusted
from askance.methods.common.generation_state import GenerationState
from askance.methods.common.prompts import OWN, Layout, in_layout, layout_needs, question_spans
from askance.methods.common.search import num_fitting
from askance.methods.common.token_limit import TokenLimited

INSTRUCTION = (
    "Find out the answer to the question in a dialogue with a search engine. Say what you need to know, and "
    'end your turn with "Query:" and a query. The next turn shows what was found. If that is not enough, '
    'end with "Refined Query:" and another query. As soon as you know the answer, write "Final Answer:" and '
    "the answer in a few words."
)
_QUERY, _FINAL = (
    re.compile(rf".*{words}\s*:", re.IGNORECASE | re.DOTALL) for words in ("query", "final answer")
)


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
        turns = [Turn("system", (Span(INSTRUCTION),))]
        turns.append(Turn("user", (Span("Question: "), *question_spans(question))))
        said, final = "", None
        for step in range(self.max_rounds + 1):
            prompt, num_tokens = self._prompt(run.model, turns), self.max_tokens
            if step == self.max_rounds:
                state.stop_reason = f"there were {self.max_rounds} searches"
            elif step and not await has_room(
                run.model, prompt, num_tokens, keep=await run.model.count(prompt)
            ):
                state.stop_reason = "there is no room for another search"
                if not await has_room(run.model, prompt, num_tokens):
                    break
            sampling = Sampling(self.max_tokens, stop=("\nRetrieved Document", "\nQuestion:"))
            request = GenerateRequest(prompt, sampling, key=("turn", step), on_text=run.trace.draft)
            (written,) = await run.model.generate(request)
            said = state.parse_text(written.text).text.strip()
            final, asked = _FINAL.match(said), _QUERY.match(said)
            if final and not asked:
                state.stop_reason = "the model gave its final answer"
            if state.stop_reason:
                break
            number, query = number + bool(asked), (asked and said[asked.end() :].strip()) or query
            why = "the model names a query" if asked else "the model names neither a query nor its answer"
            decision = run.trace.decide("retrieve", "search", why, query=query)
            hits = await state.search(decision, self.passages, state.shown_ids)
            turns.append(Turn("assistant", (untrusted(said),)))
            label = f"Retrieved Document_{number}: "
            prompt_with = partial(self._prompt_with, run.model, turns, label, hits)
            hits = hits[: await num_fitting(run, len(hits), prompt_with, self.max_tokens)]
            state.show_passages(hits)
            turns.append(_found(label, hits))
        return state.conclude(said[final.end() :] if final else said)

    def _prompt_with(
        self, model: Model, turns: list[Turn], label: str, hits: Sequence[Hit], num: int
    ) -> Prompt:
        return self._prompt(model, [*turns, _found(label, hits[:num])])

    def _prompt(self, model: Model, turns: Sequence[Turn]) -> Prompt:
        parts = [span for turn in turns for span in (*turn.parts, Span("\n"))]
        return in_layout(self.layout, model, parts, turns, "")


def _found(label: str, hits: Sequence[Hit]) -> Turn:
    return Turn("user", (Span(label), untrusted(" ".join(hit.passage.text for hit in hits))))
