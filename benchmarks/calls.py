"""A model wrapper that records its calls."""

import time
from collections.abc import Sequence
from contextvars import ContextVar

from askance.core.ports import WrappedModel
from askance.core.types import (
    Attention,
    GenerateRequest,
    Generation,
    Prompt,
    Sampling,
    Scored,
    TokenIds,
)
from askance.models.local.model import LocalModel
from benchmarks.work import Call

ASKED: ContextVar[str] = ContextVar("asked", default="")
"""The id of the question that is being answered."""


class Calls(WrappedModel):
    """A model that records its calls.

    Attributes:
        made: The calls, in the order in which they ended.
    """

    def __init__(self, model: LocalModel) -> None:
        super().__init__(model)
        self._local = model
        self.made: list[Call] = []

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        began = time.perf_counter()
        written = await self._model.generate(request)
        different = written if request.sampling.temperature else written[:1]
        texts = [tuple(token.id for token in (*each.tokens, *each.dropped)) for each in different]
        self._note([written[0].prompt_ids], began, texts, request.sampling)
        return written

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        began = time.perf_counter()
        scored = await self._model.score(prompt, options)
        ids = self._local._encoding.encode(prompt)
        self._note([(*ids, *self._local.tokenize(option)[:-1]) for option in options], began)
        return scored

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        began = time.perf_counter()
        attention = await self._model.attend(text, bos=bos)
        self._note([attention.ids], began)
        return attention

    def _note(
        self,
        prompts: Sequence[TokenIds],
        began: float,
        written: Sequence[TokenIds] = (),
        sampling: Sampling | None = None,
    ) -> None:
        self.made.append(Call(ASKED.get(), prompts, written, sampling, began, time.perf_counter()))
