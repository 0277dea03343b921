"""Token ledgers, which track how many tokens a budget allows, has spent, and has lent to its parts.

`middleware.session` keeps a ledger for a question's budget, which covers all input and output tokens.
Methods keep a ledger for L_max (Feng et al. 2025, AirRAG, arXiv 2501.10053, after Yue et al. 2024, IterDRAG,
arXiv 2410.04343), the maximum number of input tokens of all calls together. L_max does not cover output
tokens, retrievers or encoders.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from askance.core.answers import UPPER_BOUND
from askance.core.parameters import Parameters, checked_dataclass, parameter
from askance.core.ports import Model, PairScorer, RoleModel, WrappedModel, wrap
from askance.core.types import Attention, GenerateRequest, Generation, Key, Prompt, Scored, TokenIds


@checked_dataclass()
class Budget(Parameters):
    """The limits on the cost of one question. None means no limit."""

    owner: ClassVar[str] = "the budget"

    tokens: int | None = parameter(
        None, "Prompt tokens, reused or not, and generated tokens of all models together.", at_least=1
    )
    calls: int | None = parameter(None, "Calls to models and the retriever.", at_least=1)
    seconds: float | None = parameter(None, "Seconds since the first call.", at_least=0.001)


class NoRoom(Exception):
    """A call was not made because it exceeds the budget or the context window. The message says why.

    The caller then tries a shorter prompt.
    """


@dataclass(slots=True)
class TokenLedger:
    """A token budget, parts of which can be lent to other ledgers.

    Tokens that a ledger spends are also spent from its lender. Only the root ledger records the last three
    attributes.

    Attributes:
        most: The maximum number of tokens to spend, or None for no limit.
        lender: The ledger that lent the tokens to this ledger, or None for the root ledger.
        num_spent: The number of tokens spent so far, including those spent by borrowing ledgers.
        set_aside: The number of tokens that are lent but not yet spent, or reserved for later.
        was_short: True if some call did not fit.
        num_output: The number of output tokens so far, unless output tokens count as spent.
        is_upper_bound: True if the length of some prompt is only known as an upper bound.
    """

    most: int | None = None
    lender: "TokenLedger | None" = None
    num_spent: int = 0
    set_aside: int = 0
    was_short: bool = False
    num_calls: int = 0
    num_output: int = 0
    is_upper_bound: bool = False

    @property
    def left(self) -> int | None:
        """The number of tokens that are neither spent nor set aside, or None if there is no limit."""
        return None if self.most is None else self.most - self.num_spent - self.set_aside

    def fits(self, num_tokens: int) -> bool:
        """Return whether at least `num_tokens` tokens are left."""
        return self.left is None or num_tokens <= self.left

    def lend(self, most: int | None) -> "TokenLedger":
        """Return a new ledger that borrows `most` tokens."""
        self.set_aside += most or 0
        return TokenLedger(most, self)

    def share(self, num_sharing: int) -> "TokenLedger":
        """Return a new ledger that borrows one of `num_sharing` equal parts of the tokens left."""
        return self.lend(None if self.left is None else max(0, self.left) // num_sharing)

    def close(self) -> None:
        """Return the unspent tokens of this ledger to its lender."""
        if self.left is not None and self.lender is not None:
            self.lender.set_aside -= self.left
            self.most = self.num_spent

    @property
    def root(self) -> "TokenLedger":
        """The ledger at the end of the chain of lenders, which has no lender."""
        return self.lender.root if self.lender else self

    def spend(self, num_tokens: int) -> None:
        """Record tokens as spent, in this ledger and in all its lenders."""
        self.num_spent += num_tokens
        if self.lender is not None:
            self.lender.set_aside -= 0 if self.most is None else num_tokens
            self.lender.spend(num_tokens)

    async def read(self, model: Model, prompt: Prompt | None, max_tokens: int, *, further: int = 0) -> None:
        """Record a call and spend its input tokens.

        Args:
            prompt: The prompt, if the call has one.
            further: The number of input tokens besides the prompt.

        Raises:
            NoRoom: The input exceeds the tokens left, or the call exceeds the model's context window.
        """
        num_prompt = 0 if prompt is None else await model.count(prompt)
        num_tokens, window = num_prompt + further, model.context_tokens
        self.root.is_upper_bound |= prompt is not None and not model.counts_exactly
        if num_prompt + max_tokens > window and self.fits(num_tokens):
            self.was_short = True
            raise NoRoom(
                f"the next prompt has {num_prompt:,} tokens, {max_tokens:,} more were requested, and "
                f"{model.name} has a context window of {window:,}"
            )
        self.spend_call(num_tokens)

    def spend_call(self, num_tokens: int) -> None:
        """Record a call and spend its input tokens.

        Raises:
            NoRoom: The input exceeds the tokens left.
        """
        if not self.fits(num_tokens):
            self.was_short = True
            raise NoRoom(
                f"the next call reads {num_tokens:,} tokens, and {max(0, self.left or 0):,} are left"
            )
        self.root.num_calls += 1
        self.spend(num_tokens)

    @property
    def numbers(self) -> dict[str, float]:
        """The counts for the trace: input tokens (limited by L_max), all tokens (L_total) and calls."""
        spent = {
            "input tokens": float(self.num_spent),
            "tokens": float(self.num_spent + self.num_output),
            "calls": float(self.num_calls),
        }
        spent |= {} if self.most is None else {"l_max": float(self.most)}
        return {**spent, UPPER_BOUND: 1.0} if self.is_upper_bound else spent

    def __str__(self) -> str:
        of = "" if self.most is None else f" of {self.most:,}"
        at_most = "≤ " if self.is_upper_bound else ""
        return f"{self.num_calls} calls read {at_most}{self.num_spent:,} tokens{of}"


class BudgetedModel(WrappedModel):
    """A model whose calls spend their input tokens from a ledger.

    Args:
        ledger: The ledger to spend from. A call that does not fit raises `NoRoom`.
        scope: A prefix for the keys of all calls, so that two methods never draw the same random numbers.
    """

    def __init__(self, model: Model, ledger: TokenLedger, *, scope: Key = ()) -> None:
        super().__init__(model)
        self._ledger, self._scope = ledger, scope

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        await self._ledger.read(self._model, request.prompt, request.sampling.max_tokens)
        generations = await self._model.generate(replace(request, key=(*self._scope, *request.key)))
        self._ledger.root.num_output += sum(generation.generated_tokens for generation in generations)
        return generations

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        num_tokens = sum(len(self._model.tokenize(option)) for option in options)
        await self._ledger.read(self._model, prompt, num_tokens, further=num_tokens)
        return await self._model.score(prompt, options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        num_tokens = len(self._model.tokenize(text) if isinstance(text, str) else text)
        await self._ledger.read(self._model, None, 0, further=num_tokens + bos)
        return await self._model.attend(text, bos=bos)


def budgeted(model: RoleModel, ledger: TokenLedger, *, scope: Key = ()) -> RoleModel:
    """Return a model whose calls spend from a ledger (see `BudgetedModel`)."""

    def score_pairs(scorer: PairScorer, pairs: Sequence[tuple[str, str]]) -> Awaitable[Sequence[float]]:
        ledger.spend_call(sum(scorer.count_tokens(*pair) for pair in pairs))
        return scorer.score_pairs(pairs)

    return wrap(model, lambda model: BudgetedModel(model, ledger, scope=scope), score_pairs)


async def has_room(model: Model, prompt: Prompt, max_tokens: int, *, keep: int = 0) -> bool:
    """Return whether a call fits the model's context window and leaves `keep` tokens in the budget."""
    num_tokens = await model.count(prompt)
    has_budget = True
    while has_budget and isinstance(model, WrappedModel):
        has_budget = not isinstance(model, BudgetedModel) or model._ledger.fits(num_tokens + keep)
        model = model._model
    return has_budget and num_tokens + max_tokens <= model.context_tokens


async def most_that_fit(most: int, fits: Callable[[int], Awaitable[bool]]) -> int | None:
    """Return the greatest number from 0 to `most` for which `fits` is true, or None if there is none.

    The function searches by bisection, so if a number fits, every smaller one must fit as well.
    """
    if await fits(most):
        return most
    first, end = 0, most  # the first number that does not fit is one of first:end + 1
    while first < end:
        middle = (first + end) // 2
        first, end = (middle + 1, end) if await fits(middle) else (first, middle)
    return first - 1 if first else None
