"""What all wrappers of a port share: a call that they do not change goes through."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from askance.core.ports import Model, Retriever
from askance.core.types import (
    Attention,
    Capability,
    GenerateRequest,
    Generation,
    Hit,
    Key,
    Prompt,
    Sampling,
    Scored,
    Signal,
    Span,
    TokenIds,
    Until,
    Want,
    Watch,
)


async def generated(model: Model, request: GenerateRequest) -> tuple[Generation, ...]:
    """What a model writes when it is asked for a request."""
    return await model.generate(
        request.prompt,
        request.sampling,
        request.want,
        request.until,
        n=request.n,
        key=request.key,
        watch=request.watch,
    )


class RequestedModel(ABC):
    """A model that takes a request as one record."""

    async def generate(
        self,
        prompt: Prompt,
        sampling: Sampling,
        want: Want = Want(),
        until: Until | None = None,
        *,
        n: int = 1,
        key: Key,
        watch: Watch | None = None,
    ) -> tuple[Generation, ...]:
        """See `Model.generate`."""
        return await self.complete(GenerateRequest(prompt, sampling, want, until, n=n, key=key, watch=watch))

    @abstractmethod
    async def complete(self, request: GenerateRequest) -> tuple[Generation, ...]:
        """Write what a request asks for; see `Model.generate`."""


class WrappedModel(RequestedModel):
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

    async def complete(self, request: GenerateRequest) -> tuple[Generation, ...]:
        return await generated(self._model, request)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        return await self._model.score(prompt, options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        return await self._model.attend(text, bos=bos)

    def token_ids(self, text: str) -> TokenIds:
        return self._model.token_ids(text)

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
