"""L_max: the tokens that a method may read for one question, and how they are shared out.

Feng et al. 2025 (AirRAG, arXiv 2501.10053), after Yue et al. 2024 (IterDRAG, arXiv 2410.04343): L_max is the
most input tokens of all calls together; output, the retriever and encoders don't count.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from askance.core.ports import Model, WrappedModel
from askance.core.trace import UPPER_BOUND
from askance.core.types import (
    Attention,
    GenerateRequest,
    Generation,
    Key,
    Prompt,
    Scored,
    TokenIds,
)


class NoRoom(Exception):
    """A call does not fit, and was not made; its text says why. Who made it looks for a shorter way."""


@dataclass(slots=True)
class Account:
    """Input tokens of a question.

    Attributes:
        most: L_max; None is no limit.
        num_input: read until now.
        num_output: written until now.
        num_calls: made until now.
        set_aside: tokens that rollouts on their way may still read, and what is kept for the last call.
        is_upper_bound: some prompt was counted by a model that only bounds its tokens from above.
    """

    most: int | None
    num_input: int = 0
    num_output: int = 0
    num_calls: int = 0
    set_aside: int = 0
    is_upper_bound: bool = False

    @property
    def left(self) -> int | None:
        """What nobody has or may have; None without a limit."""
        return None if self.most is None else self.most - self.num_input - self.set_aside

    def share(self, num_sharing: int) -> "Allowance":
        """An equal part of what is left, for one of so many that are still to come."""
        return self._lend(None if self.left is None else max(0, self.left) // num_sharing)

    def part(self, num_tokens: int) -> "Allowance":
        """So many tokens, or none where they would be more than a quarter of what is left."""
        return self._lend(None if self.left is None else num_tokens if 4 * num_tokens <= self.left else 0)

    @property
    def numbers(self) -> dict[str, float]:
        """What was spent, for the trace: L_max is about what was read, the paper's L_total about all."""
        spent = {
            "input tokens": float(self.num_input),
            "tokens": float(self.num_input + self.num_output),
            "calls": float(self.num_calls),
        }
        spent |= {} if self.most is None else {"l_max": float(self.most)}
        return {**spent, UPPER_BOUND: 1.0} if self.is_upper_bound else spent

    def __str__(self) -> str:
        of = "" if self.most is None else f" of {self.most:,}"
        at_most = "≤ " if self.is_upper_bound else ""
        return f"{self.num_calls} calls read {at_most}{self.num_input:,} tokens{of}"

    def _lend(self, most: int | None) -> "Allowance":
        self.set_aside += most or 0
        return Allowance(self, most)


@dataclass(slots=True)
class Allowance:
    """What one rollout, or one further method, may read.

    Attributes:
        most: input tokens; None is no limit.
        num_input: read until now.
        was_short: some call did not fit.
    """

    account: Account
    most: int | None
    num_input: int = 0
    was_short: bool = False

    @property
    def left(self) -> int | None:
        """None without a limit."""
        return None if self.most is None else self.most - self.num_input

    def fits(self, num_tokens: int) -> bool:
        """Whether so many tokens can be read."""
        return self.left is None or num_tokens <= self.left

    def close(self) -> None:
        """Give back what was not read."""
        if self.left is not None:
            self.account.set_aside -= self.left
            self.most = self.num_input

    def read(self, model: Model, prompt: Prompt | None, max_tokens: int, *, further: int = 0) -> None:
        """Spend what a call reads: its prompt and `further` tokens; it may write `max_tokens`.

        Raises:
            NoRoom: there is not as much left, or not in the model's window.
        """
        num_prompt = 0 if prompt is None else model.count(prompt)
        num_tokens = num_prompt + further
        self.account.is_upper_bound |= prompt is not None and not model.counts_exactly
        if not self.fits(num_tokens):
            self.was_short = True
            raise NoRoom(
                f"the next call reads {num_tokens:,} tokens, and {max(0, self.left or 0):,} are left"
            )
        if num_prompt + max_tokens > model.context_tokens:
            self.was_short = True
            raise NoRoom(
                f"the next prompt has {num_prompt:,} tokens, {max_tokens:,} more were asked for, and "
                f"{model.name} has a context window of {model.context_tokens:,}"
            )
        self._take(num_tokens)

    def _take(self, num_tokens: int) -> None:
        self.num_input += num_tokens
        self.account.num_calls += 1
        self.account.num_input += num_tokens
        if self.most is not None:
            self.account.set_aside -= num_tokens
        assert self.account.most is None or self.account.num_input <= self.account.most


class AllowedModel(WrappedModel):
    """A model whose calls count against an allowance. Raises NoRoom like it.

    Args:
        scope: goes in front of the keys, so that two methods never share the randomness of a call.
    """

    def __init__(self, model: Model, allowance: Allowance, *, scope: Key = ()) -> None:
        super().__init__(model)
        self._allowance, self._scope = allowance, scope

    def allows(self, num_tokens: int) -> bool:
        """Whether so many input tokens are left."""
        return self._allowance.fits(num_tokens) and _allows(self._model, num_tokens)

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        self._allowance.read(self._model, request.prompt, request.sampling.max_tokens)
        scoped = replace(request, key=(*self._scope, *request.key))
        generations = await self._model.generate(scoped)
        self._allowance.account.num_output += sum(each.generated_tokens for each in generations)
        return generations

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        num_tokens = sum(len(self._model.tokenize(option)) for option in options)
        self._allowance.read(self._model, prompt, num_tokens, further=num_tokens)
        return await self._model.score(prompt, options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        num_tokens = len(self._model.tokenize(text) if isinstance(text, str) else text)
        self._allowance.read(self._model, None, 0, further=num_tokens + bos)
        return await self._model.attend(text, bos=bos)


def has_room(model: Model, prompt: Prompt, max_tokens: int, *, keep: int = 0) -> bool:
    """Whether a call fits the model's window and, where there is an L_max, leaves `keep` tokens of it."""
    num_tokens = model.count(prompt)
    return num_tokens + max_tokens <= model.context_tokens and _allows(model, num_tokens + keep)


def _allows(model: Model, num_tokens: int) -> bool:
    return not isinstance(model, AllowedModel) or model.allows(num_tokens)


def most_that_fit(most: int, fits: Callable[[int], bool]) -> int | None:
    """The greatest number up to `most` that fits, where what is less than one that fits does, too."""
    if fits(most):
        return most
    number = bisect_left(range(most), True, key=lambda each: not fits(each))
    return number - 1 if number else None
