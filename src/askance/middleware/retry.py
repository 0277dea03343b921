"""Calls that are made again when it may help: when a server was busy or out of reach, and then only."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from askance.core.errors import ModelUnavailable
from askance.core.notes import note
from askance.core.ports import Model, WrappedModel
from askance.core.types import Attention, GenerateRequest, Generation, Prompt, Scored, TokenIds

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and how long between.

    Attributes:
        attempts: 1 or more, the first one included.
        first_seconds: before the second one; each further wait is twice as long.
        most_seconds: of one wait, also where a server asks for more.
    """

    attempts: int = 4
    first_seconds: float = 1.0
    most_seconds: float = 30.0

    def wait_seconds(self, attempt: int, asked_for: float | None) -> float:
        """Before the attempt after this one, counted from 1."""
        wanted = self.first_seconds * 2 ** (attempt - 1) if asked_for is None else asked_for
        return min(wanted, self.most_seconds)

    async def keep_trying(self, call: Callable[[], Awaitable[T]], sleep: Sleep = asyncio.sleep) -> T:
        """What `call` gives; what it raises, if that is not worth another attempt or was the last one."""
        for attempt in range(1, self.attempts + 1):
            try:
                return await call()
            except ModelUnavailable as error:
                if attempt == self.attempts:
                    tried = "once" if attempt == 1 else f"{attempt} times"
                    raise type(error)(f"{error} (tried {tried})") from error
                seconds = self.wait_seconds(attempt, error.after_seconds)
                note(
                    "retry",
                    f"{error} Waiting {seconds:g} s, then trying again ({attempt + 1} of {self.attempts}).",
                )
                await sleep(seconds)
        raise AssertionError("unreachable")


class RetryingModel(WrappedModel):
    """A model that is asked again while it is unavailable."""

    def __init__(self, model: Model, patience: RetryPolicy = RetryPolicy()) -> None:
        super().__init__(model)
        self._patience = patience

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        watch, told = request.watch, 0

        async def attempt() -> tuple[Generation, ...]:
            seen = 0

            def onward(text: str) -> None:
                """Tell what was not told in an attempt that broke."""
                nonlocal seen, told
                seen += len(text)
                if watch is not None and seen > told:
                    new, told = seen - told, seen
                    watch(text[-new:])

            return await self._model.generate(replace(request, watch=watch and onward))

        return await self._patience.keep_trying(attempt)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        return await self._patience.keep_trying(lambda: self._model.score(prompt, options))

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        return await self._patience.keep_trying(lambda: self._model.attend(text, bos=bos))
