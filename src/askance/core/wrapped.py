"""What all wrappers of a port share: a call that they do not change goes through."""

from collections.abc import Sequence

from askance.core.ports import Model, Retriever
from askance.core.types import (
    Attention,
    Capability,
    GenerateRequest,
    Generation,
    Hit,
    Prompt,
    Scored,
    Signal,
    Span,
    TokenIds,
)


class WrappedModel:
    """A `Model` over another one."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def fingerprint(self) -> str:
        return self._model.fingerprint

    @property
    def precision(self) -> str:
        return self._model.precision

    @property
    def signals(self) -> frozenset[Signal]:
        return self._model.signals

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self._model.capabilities

    @property
    def context_tokens(self) -> int:
        return self._model.context_tokens

    @property
    def counts_exactly(self) -> bool:
        return self._model.counts_exactly

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        return await self._model.generate(request)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        return await self._model.score(prompt, options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        return await self._model.attend(text, bos=bos)

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        return self._model.tokenize(text, at_start=at_start)

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return self._model.decode(ids, at_start=at_start)

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return self._model.pieces(ids)

    def count(self, prompt: Prompt) -> int:
        return self._model.count(prompt)


class WrappedRetriever:
    """A `Retriever` over another one."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever

    @property
    def name(self) -> str:
        return self._retriever.name

    @property
    def fingerprint(self) -> str:
        return self._retriever.fingerprint

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        return await self._retriever.search(query, k, exclude=exclude)
