"""The course that DRAGIN's profile code takes with a question, with the numbers behind each of its steps."""

from dataclasses import replace
from typing import cast

from askance.ask import ask
from askance.core.ports import Model, Retriever
from askance.core.trace import AnyEvent, Decided, Trace
from askance.core.types import (
    Attention,
    GenerateRequest,
    Generation,
    Question,
    Token,
    TokenIds,
)
from askance.core.wrapped import WrappedModel
from askance.methods.authors import space_marker, written
from askance.methods.dragin import Dragin
from askance.methods.rind import align, influence, read_words, scores, weigh
from runs.first_difference import Step
from runs.kept_rows import Row

NUM_TOP = 5
"""Most probable tokens that are told of each."""


async def course_of(dragin: Dragin, question: Question, model: Model, retriever: Retriever) -> Row:
    """One question: the steps, and the short answer. What breaks is recorded, with the steps before it."""
    steps: list[Step] = []

    def note(event: AnyEvent) -> None:
        if isinstance(event, Decided):
            steps.append({"kind": "decide", "outcome": event.outcome, "query": event.query})

    listening = cast(Model, Listening(model, dragin, steps))
    try:
        result = await ask(question, dragin, {"answer": listening}, retriever, trace=Trace(note))
    except Exception as problem:
        return {"steps": steps, "short": "", "error": f"{type(problem).__name__}: {problem}"}
    steps.append({"kind": "answer", "text": result.answer.text})
    return {"steps": steps, "short": result.answer.short, "error": ""}


class Listening(WrappedModel):
    """The answering model: what it writes, and how drafts are weighed, goes into `steps`."""

    def __init__(self, model: Model, dragin: Dragin, steps: list[Step]) -> None:
        super().__init__(model)
        self._dragin, self._steps = dragin, steps
        self._last: Generation | None = None

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        more = replace(request.want, logprob=True, entropy=True, top_logprobs=NUM_TOP)
        found = await super().generate(replace(request, want=more))
        self._last = found[0]
        tokens = [_told(token) for token in (*found[0].tokens, *found[0].dropped)]
        self._steps.append({"kind": "write", "prompt": repr(request.prompt), "tokens": tokens})
        return found

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        attention = await super().attend(text, bos=bos)
        if not bos and self._last is not None:  # the draft by itself; queries have BOS
            self._steps.append({"kind": "weigh", "sentences": self._weighed(attention, self._last)})
        return attention

    def _weighed(self, attention: Attention, last: Generation) -> list[list[tuple[str, float]]]:
        """Each sentence's words with their scores, as the profile has them."""
        draft = written(last, self._model)
        pieces = self._model.pieces(draft.ids)
        marker = space_marker(self._dragin.space_marker, self._model)
        words = read_words(draft.ids, pieces, marker, after_end=True)
        entropies = [token.entropy or 0.0 for token in draft.tokens]
        weighed = weigh(words, influence(attention.weights, pieces[0]).tolist(), entropies)
        ranges = align(self._dragin.linguistics.sentences(draft.text), weighed.words)
        return [
            list(zip(weighed.words[first:last], scores(weighed, first, last), strict=True))
            for first, last in ranges
        ]


def _told(token: Token) -> Row:
    return {"id": token.id, "text": token.text, "entropy": token.entropy, "top": token.top}
