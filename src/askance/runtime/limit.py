"""Limits of what a question may cost: tokens, calls, seconds. What goes beyond is refused, not shortened."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from askance.core.errors import LimitReached
from askance.core.knobs import Knobs, knob
from askance.core.ports import Model, Retriever, WrappedModel, WrappedRetriever
from askance.core.types import (
    Attention,
    GenerateRequest,
    Generation,
    Hit,
    Prompt,
    Scored,
    TokenIds,
)


@dataclass(frozen=True, slots=True)
class Budget(Knobs):
    """The most that one question may cost; None is no limit."""

    owner: ClassVar[str] = "the budget"

    tokens: int | None = knob(
        None, "Tokens of prompts, reused or not, and generated ones, of all models together.", at_least=1
    )
    calls: int | None = knob(None, "Calls of models and of the retriever.", at_least=1)
    seconds: float | None = knob(None, "Seconds since the first call.", at_least=0.001)


class Ledger:
    """What one question has cost until now.

    Attributes:
        num_tokens: where tokens are limited. What a call may write counts from its beginning, so that calls
            made side by side do not spend the same tokens.
        num_calls: made.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget, self.num_tokens, self.num_calls = budget, 0, 0
        self._began: float | None = None

    @property
    def tokens_left(self) -> int | None:
        """None where there is no limit."""
        return None if self.budget.tokens is None else self.budget.tokens - self.num_tokens

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
            left = self._seconds_left()
            if left is None or left > 0:
                raise  # a time-out of the call itself
            raise self._late() from error

    def room(self, max_tokens: int, n: int) -> int:
        """How many tokens each of `n` texts may have, which want `max_tokens`.

        Raises:
            LimitReached: none.
        """
        room = max_tokens if self.tokens_left is None else min(max_tokens, self.tokens_left // n)
        if room < 1:
            raise LimitReached(f"a question has {self.budget.tokens:,} tokens: none is left to write with.")
        return room

    @contextmanager
    def set_aside(self, num_tokens: int) -> Iterator[None]:
        """Tokens that may be generated; `spend` those that are."""
        self.num_tokens += num_tokens
        try:
            yield
        finally:
            self.num_tokens -= num_tokens

    def spend(self, num_tokens: int) -> None:
        """Tokens that were generated."""
        self.num_tokens += num_tokens

    def _begin(self, num_tokens: int) -> None:
        self._began = time.monotonic() if self._began is None else self._began
        budget, seconds_left = self.budget, self._seconds_left()
        if seconds_left is not None and seconds_left <= 0:
            raise self._late()
        if budget.calls is not None and self.num_calls >= budget.calls:
            raise LimitReached(
                f"a question has {budget.calls} calls, and all are made: allow more (--budget calls=N)."
            )
        if self.tokens_left is not None and num_tokens >= self.tokens_left:
            raise LimitReached(
                f"a question has {budget.tokens:,} tokens, {self.num_tokens:,} are used, and the next prompt "
                f"has {num_tokens:,}: allow more (--budget tokens=N)."
            )
        self.num_calls += 1
        self.num_tokens += num_tokens

    def _late(self) -> LimitReached:
        return LimitReached(
            f"the time is over: a question has {self.budget.seconds:g} seconds. Allow more "
            "(--budget seconds=N)."
        )

    def _seconds_left(self) -> float | None:
        if self.budget.seconds is None or self._began is None:
            return None
        return self.budget.seconds - (time.monotonic() - self._began)


class LimitedModel(WrappedModel):
    """A model whose calls a ledger allows."""

    def __init__(self, model: Model, ledger: Ledger) -> None:
        super().__init__(model)
        self._ledger = ledger

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        n, sampling = request.n, request.sampling
        async with self._ledger.call(n * self._num_tokens(request.prompt)):
            room = self._ledger.room(sampling.max_tokens, n)
            with self._ledger.set_aside(n * room):
                limited = replace(request, sampling=replace(sampling, max_tokens=room))
                generations = await self._model.generate(limited)
            self._ledger.spend(sum(generation.generated_tokens for generation in generations))
        if room < sampling.max_tokens and any(each.finish == "length" for each in generations):
            raise LimitReached(f"a question has {self._ledger.budget.tokens:,} tokens, and all are used.")
        return generations

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        num_tokens = self._num_tokens(prompt, *options)
        async with self._ledger.call(num_tokens):
            return await self._model.score(prompt, options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        async with self._ledger.call(self._num_text_tokens(text)):
            return await self._model.attend(text, bos=bos)

    def _num_tokens(self, prompt: Prompt, *options: str) -> int:
        """Counted only where it matters: counting tokenises all of it."""
        if self._ledger.tokens_left is None:
            return 0
        return self.count(prompt) + sum(map(self._num_text_tokens, options))

    def _num_text_tokens(self, text: str | TokenIds) -> int:
        if self._ledger.tokens_left is None:
            return 0
        return len(self.tokenize(text) if isinstance(text, str) else text)


class LimitedRetriever(WrappedRetriever):
    """A retriever whose searches a ledger allows."""

    def __init__(self, retriever: Retriever, ledger: Ledger) -> None:
        super().__init__(retriever)
        self._ledger = ledger

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        async with self._ledger.call():
            return await self._retriever.search(query, k, exclude=exclude)
