"""Retries of calls, but only of those that failed because a server was busy or unreachable."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from askance.core.errors import ModelUnavailable
from askance.core.notes import note
from askance.core.ports import Model, WrappedModel
from askance.core.types import GenerateRequest, Generation, Prompt, Scored

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts and the waits between them, which double every time.

    Attributes:
        attempts: The maximum number of attempts, including the first one; at least 1.
        first_seconds: The wait before the second attempt.
        most_seconds: The longest wait, even if a server asks for more.
    """

    attempts: int = 4
    first_seconds: float = 1.0
    most_seconds: float = 30.0

    async def keep_trying(self, call: Callable[[], Awaitable[T]], sleep: Sleep = asyncio.sleep) -> T:
        """Return the result of `call`, which is repeated while it raises `ModelUnavailable`.

        The waits double every time, unless the server asks for another one.

        Raises:
            ModelUnavailable: The last attempt failed as well.
        """
        for attempt in range(1, self.attempts + 1):
            try:
                return await call()
            except ModelUnavailable as error:
                if attempt == self.attempts:
                    tried = "once" if attempt == 1 else f"{attempt} times"
                    raise type(error)(f"{error} (tried {tried})") from error
                doubled, asked_for = self.first_seconds * 2 ** (attempt - 1), error.after_seconds
                seconds = min(doubled if asked_for is None else asked_for, self.most_seconds)
                note(
                    "retry",
                    f"{error} Waiting {seconds:g} s, then trying again ({attempt + 1} of {self.attempts}).",
                )
                await sleep(seconds)
        raise AssertionError("unreachable")


class RetryingModel(WrappedModel):
    """A model on a server, whose calls are retried while it is unavailable. No server gives attention."""

    def __init__(self, model: Model, policy: RetryPolicy = RetryPolicy()) -> None:
        super().__init__(model)
        self._policy = policy

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        on_text, sent = request.on_text, list[str]()

        async def attempt() -> tuple[Generation, ...]:
            before, num_received, is_same = "".join(sent), 0, True

            def forward(text: str) -> None:
                """Forward only what no earlier attempt has forwarded, and nothing after another text."""
                nonlocal num_received, is_same
                known = before[num_received : num_received + len(text)]
                num_received, is_same = num_received + len(text), is_same and text.startswith(known)
                if on_text is not None and is_same and len(text) > len(known):
                    sent.append(text[len(known) :])
                    on_text(sent[-1])

            return await self._model.generate(replace(request, on_text=on_text and forward))

        return await self._policy.keep_trying(attempt)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        return await self._policy.keep_trying(lambda: self._model.score(prompt, options))

    async def count(self, prompt: Prompt) -> int:
        return await self._policy.keep_trying(lambda: self._model.count(prompt))
