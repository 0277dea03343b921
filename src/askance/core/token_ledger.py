"""The ledger of token budgets: how many tokens may be spent, how many were, and which are lent.

`middleware.session` keeps one for the budget of a question; all tokens read and written count against it.
Methods keep one for L_max (Feng et al. 2025, AirRAG, arXiv 2501.10053, after Yue et al. 2024, IterDRAG,
arXiv 2410.04343): the most input tokens of all calls together; output, the retriever and encoders don't
count.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from askance.core.ports import Model, WrappedModel
from askance.core.trace import UPPER_BOUND
from askance.core.types import Attention, GenerateRequest, Generation, Key, Prompt, Scored, TokenIds


class NoRoom(Exception):
    """A call does not fit, and was not made; its text says why. Who made it looks for a shorter way."""


@dataclass(slots=True)
class TokenLedger:
    """Tokens that may be spent, of which parts can be lent; what is spent of a part is spent of the whole.

    Attributes:
        most: that may be spent; None is no limit.
        lender: the ledger that this one is a part of.
        num_spent: until now, by its parts, too.
        set_aside: what is lent and not spent yet, and what is kept for later.
        was_short: some call did not fit.
        num_calls: made until now; counted in the whole, as the next two are.
        num_output: tokens written until now, where these do not count as spent.
        is_upper_bound: some prompt was counted by a model that only bounds its tokens from above.
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
        """What is neither spent nor set aside; None without a limit."""
        return None if self.most is None else self.most - self.num_spent - self.set_aside

    def fits(self, num_tokens: int) -> bool:
        """Whether so many tokens are left."""
        return self.left is None or num_tokens <= self.left

    def lend(self, most: int | None) -> "TokenLedger":
        """A part of so many tokens."""
        self.set_aside += most or 0
        return TokenLedger(most, self)

    def share(self, num_sharing: int) -> "TokenLedger":
        """An equal part of what is left, for one of so many that are still to come."""
        return self.lend(None if self.left is None else max(0, self.left) // num_sharing)

    def part(self, num_tokens: int) -> "TokenLedger":
        """So many tokens, or none where they would be more than a quarter of what is left."""
        return self.lend(None if self.left is None else num_tokens if 4 * num_tokens <= self.left else 0)

    def close(self) -> None:
        """Give back what was not spent of what was lent."""
        if self.left is not None and self.lender is not None:
            self.lender.set_aside -= self.left
            self.most = self.num_spent

    @property
    def root(self) -> "TokenLedger":
        """The whole that this is a part of."""
        return self.lender.root if self.lender else self

    def spend(self, num_tokens: int) -> None:
        """Count tokens, here and in all that this is a part of."""
        self.num_spent += num_tokens
        if self.lender is not None:
            self.lender.set_aside -= 0 if self.most is None else num_tokens
            self.lender.spend(num_tokens)

    def read(self, model: Model, prompt: Prompt | None, max_tokens: int, *, further: int = 0) -> None:
        """Spend what a call reads: its prompt and `further` tokens; it may write `max_tokens`.

        Raises:
            NoRoom: there is not as much left, or not in the model's window.
        """
        num_prompt = 0 if prompt is None else model.count(prompt)
        num_tokens, window = num_prompt + further, model.context_tokens
        self.root.is_upper_bound |= prompt is not None and not model.counts_exactly
        self.was_short |= not self.fits(num_tokens) or num_prompt + max_tokens > window
        if not self.fits(num_tokens):
            raise NoRoom(
                f"the next call reads {num_tokens:,} tokens, and {max(0, self.left or 0):,} are left"
            )
        if num_prompt + max_tokens > window:
            raise NoRoom(
                f"the next prompt has {num_prompt:,} tokens, {max_tokens:,} more were asked for, and "
                f"{model.name} has a context window of {window:,}"
            )
        self.root.num_calls += 1
        self.spend(num_tokens)

    @property
    def numbers(self) -> dict[str, float]:
        """What was spent, for the trace: L_max is about what was read, the paper's L_total about all."""
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
    """A model whose calls spend of a ledger what they read. Raises NoRoom like it.

    Args:
        scope: goes in front of the keys, so that two methods never share the randomness of a call.
    """

    def __init__(self, model: Model, ledger: TokenLedger, *, scope: Key = ()) -> None:
        super().__init__(model)
        self._ledger, self._scope = ledger, scope

    def allows(self, num_tokens: int) -> bool:
        """Whether so many input tokens are left."""
        return self._ledger.fits(num_tokens) and _allows(self._model, num_tokens)

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        self._ledger.read(self._model, request.prompt, request.sampling.max_tokens)
        generations = await self._model.generate(replace(request, key=(*self._scope, *request.key)))
        self._ledger.root.num_output += sum(each.generated_tokens for each in generations)
        return generations

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        num_tokens = sum(len(self._model.tokenize(option)) for option in options)
        self._ledger.read(self._model, prompt, num_tokens, further=num_tokens)
        return await self._model.score(prompt, options)

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        num_tokens = len(self._model.tokenize(text) if isinstance(text, str) else text)
        self._ledger.read(self._model, None, 0, further=num_tokens + bos)
        return await self._model.attend(text, bos=bos)


def has_room(model: Model, prompt: Prompt, max_tokens: int, *, keep: int = 0) -> bool:
    """Whether a call fits the model's window and, where there is an L_max, leaves `keep` tokens of it."""
    num_tokens = model.count(prompt)
    return num_tokens + max_tokens <= model.context_tokens and _allows(model, num_tokens + keep)


def _allows(model: Model, num_tokens: int) -> bool:
    return not isinstance(model, BudgetedModel) or model.allows(num_tokens)


def most_that_fit(most: int, fits: Callable[[int], bool]) -> int | None:
    """The greatest number up to `most` that fits, where what is less than one that fits does, too."""
    if fits(most):
        return most
    number = bisect_left(range(most), True, key=lambda each: not fits(each))
    return number - 1 if number else None
