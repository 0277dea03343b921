"""Limits of what a question may cost: tokens, calls, seconds. What goes beyond is refused, not shortened."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from askance.core.errors import InputError, LimitReached
from askance.core.ports import Model, Retriever
from askance.core.types import (
    Attention,
    Generation,
    Hit,
    Key,
    Prompt,
    Sampling,
    Scored,
    TokenIds,
    Until,
    Want,
    Watch,
)
from askance.runtime.wrapped import WrappedModel, WrappedRetriever


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one question may cost; None is no limit.

    Attributes:
        tokens: of prompts, reused or not, and generated ones, of all models together.
        calls: of models and of the retriever.
        seconds: since its first call.
    """

    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"limit {name}={value}: give more than 0, or leave it out.")


class Ledger:
    """What one question has cost until now."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.num_tokens, self.num_calls = limits, 0, 0
        self._began: float | None = None

    @property
    def tokens_left(self) -> int | None:
        """None where there is no limit."""
        return None if self.limits.tokens is None else self.limits.tokens - self.num_tokens

    @asynccontextmanager
    async def call(self, num_tokens: int = 0) -> AsyncIterator[None]:
        """One call with a prompt of so many tokens.

        Raises:
            LimitReached: it can't be made, or the time is over while it is made.
        """
        self._begin(num_tokens)
        try:
            async with asyncio.timeout(self._seconds_left()):
                yield
        except TimeoutError as error:
            if self._seconds_left() is None or (self._seconds_left() or 0) > 0:
                raise  # a time-out of the call itself
            raise LimitReached(
                f"the time is over: a question has {self.limits.seconds:g} seconds."
            ) from error

    def spend(self, num_tokens: int) -> None:
        """Tokens that were generated."""
        self.num_tokens += num_tokens

    def _begin(self, num_tokens: int) -> None:
        self._began = time.monotonic() if self._began is None else self._began
        limits = self.limits
        if limits.calls is not None and self.num_calls >= limits.calls:
            raise LimitReached(f"a question has {limits.calls} calls, and all are made.")
        if self.tokens_left is not None and num_tokens >= self.tokens_left:
            raise LimitReached(
                f"a question has {limits.tokens:,} tokens, {self.num_tokens:,} are used, and the next prompt "
                f"has {num_tokens:,}."
            )
        self.num_calls += 1
        self.num_tokens += num_tokens

    def _seconds_left(self) -> float | None:
        if self.limits.seconds is None or self._began is None:
            return None
        return self.limits.seconds - (time.monotonic() - self._began)


class LimitedModel(WrappedModel):
    """A model whose calls a ledger allows."""

    def __init__(self, model: Model, ledger: Ledger) -> None:
        super().__init__(model)
        self._ledger = ledger

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
        async with self._ledger.call(n * self.count(prompt)):
            left = self._ledger.tokens_left
            room = sampling.max_tokens if left is None else min(sampling.max_tokens, left // n)
            if room < 1:
                raise LimitReached(f"a question has {self._ledger.limits.tokens:,} tokens: none is left.")
            generations = await self._model.generate(
                prompt, replace(sampling, max_tokens=room), want, until, n=n, key=key, watch=watch
            )
        self._ledger.spend(sum(generation.generated_tokens for generation in generations))
        if room < sampling.max_tokens and any(each.finish == "length" for each in generations):
            raise LimitReached(f"a question has {self._ledger.limits.tokens:,} tokens, and all are used.")
        return generations

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        num_tokens = self.count(prompt) + sum(len(self.tokenize(option)) for option in options)
        async with self._ledger.call(num_tokens):
            return await self._model.score(prompt, options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        ids = self.tokenize(text) if isinstance(text, str) else text
        async with self._ledger.call(len(ids)):
            return await self._model.attend(text, bos=bos)


class LimitedRetriever(WrappedRetriever):
    """A retriever whose searches a ledger allows."""

    def __init__(self, retriever: Retriever, ledger: Ledger) -> None:
        super().__init__(retriever)
        self._ledger = ledger

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        async with self._ledger.call():
            return await self._retriever.search(query, k, exclude=exclude)
