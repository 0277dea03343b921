"""Conversations: a follow-up question is rewritten into a question that stands alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.core.ports import Method, Model, Needs, Run
from askance.core.types import (
    Answer,
    Chat,
    Demo,
    GenerateRequest,
    Question,
    Raw,
    Sampling,
    Span,
    Turn,
    untrusted,
)
from askance.methods.common.token_limit import answer_within_limit

_INSTRUCTION = (
    "Rewrite the last question of this conversation so that it can be understood without the conversation: "
    "replace pronouns and references by what they refer to. Write the question only.\n\n"
)
_MAX_TOKENS = 128


@dataclass(frozen=True)
class FollowUp:
    """A `Method` that rewrites a follow-up question with one model call, and lets another method answer it.

    Attributes:
        method: The method that answers.
        history: The earlier questions with their answers, oldest first; not empty.
    """

    method: Method
    history: tuple[Demo, ...]
    keeps_markers = True  # the answering method removes them

    @property
    def needs(self) -> Needs:
        return self.method.needs

    async def answer(self, question: Question, run: Run) -> Answer:
        text = await standalone_question(self.history, question.text, run.model)
        run.trace.decide("question", "rewrite", f"the question continues a conversation: {text}")
        return await answer_within_limit(self.method, replace(question, text=text), run)


async def standalone_question(history: Sequence[Demo], question: str, model: Model) -> str:
    """Return the question rewritten by the model, or unchanged if the model writes nothing."""
    turns = "".join(f"Question: {turn.question}\nAnswer: {turn.answer}\n\n" for turn in history)
    parts = (Span(_INSTRUCTION), untrusted(turns), Span("Question: "), untrusted(question), Span("\n"))
    prompt: Raw | Chat = Raw((*parts, Span("Rewritten question:")))
    if "chat" in model.capabilities:
        prompt = Chat((Turn("user", parts),))
    request = GenerateRequest(prompt, Sampling(_MAX_TOKENS, stop=("\n",)), key=("rewrite",))
    (generation,) = await model.generate(request)
    return generation.text.strip() or question
