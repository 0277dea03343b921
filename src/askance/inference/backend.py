"""A `Batch` from both sides: what computes its passes, and the requests that it computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class KVSlot(Protocol):
    """The keys and values of one text.

    Attributes:
        num_held: how much of the text was there when the slot was opened.
    """

    num_held: int


S = TypeVar("S", bound=KVSlot)


@dataclass(frozen=True, slots=True)
class StepInput(Generic[S]):
    """A part of one pass.

    Attributes:
        slot: where the keys and values are; those of `ids` go behind the first `start` tokens in it.
        num_logits: after how many of the last of `ids` logits are wanted.
        wants_attention: whether the last layer's weights of those tokens are, too.
    """

    slot: S
    start: int
    ids: Sequence[int]
    num_logits: int
    wants_attention: bool


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What a pass gives back for a feed, in the backend's own types.

    Attributes:
        logits: after each of the tokens that they were wanted after.
        attention: of each of those tokens, over all tokens up to itself, shape [heads, tokens]; nothing if it
            was not wanted.
    """

    logits: Sequence[Any]
    attention: Sequence[Any] = ()


class Backend(Protocol[S]):
    """Keeps keys and values of texts that run, and of earlier ones as long as there is room, and computes.

    Attributes:
        budget_tokens: the most tokens that there is room for, of texts that run and of earlier ones together.
        can_share: whether a pass computes several texts, and a slot takes over what is held of another text.
        guessing_tokens: most tokens of what writes in one pass with guesses: up to here, more of them take
            little more time. It is 0 where a feed can't start before what its slot holds, or should not.
    """

    @property
    def budget_tokens(self) -> int: ...
    @property
    def can_share(self) -> bool: ...
    @property
    def guessing_tokens(self) -> int: ...

    def reserved_with(self, num_tokens: int) -> int:
        """How many tokens the open slots would have room for with one more slot of so many tokens."""

    def num_known(self, ids: Sequence[int]) -> int:
        """How much of the beginning `ids` is held, to be shared; 0 where nothing is shared."""

    def open(self, num_tokens: int, ids: Sequence[int] = (), *, attention: bool = False) -> S:
        """A slot with room for so many tokens; where texts share, with as much of `ids` as is worth it.

        Args:
            attention: whether attention will be wanted.

        Raises:
            BaseException: there is no memory for it.
        """

    def keep(self, slot: S, ids: Sequence[int]) -> None:
        """Hold the tokens `ids`, which are the first in a slot, for later texts if there is room."""

    def close(self, slot: S) -> None: ...

    def forget(self) -> None:
        """Hold nothing of texts that have ended."""

    def forward(self, feeds: Sequence[StepInput[S]]) -> Sequence[StepOutput]:
        """One pass over all feeds, each behind what its own slot holds.

        Raises:
            BaseException: the pass broke. If it had several feeds, each is tried again by itself.
        """


class Request(Protocol):
    """A text that is to be computed.

    Attributes:
        ids: all tokens until now, the prompt's first.
        max_tokens: most tokens that there will ever be.
        num_logits: after how many of the last of the prompt's tokens logits are wanted.
        wants_attention: of the tokens behind the prompt.
        is_abandoned: whether nobody waits for it any more; it may become true at any time.
    """

    ids: list[int]
    max_tokens: int
    num_logits: int
    wants_attention: bool
    is_abandoned: bool

    def take(self, fed: StepOutput, num_reused: int) -> bool:
        """Take the logits after the last of `ids`, and put the next token behind them. Whether there is one.

        Args:
            num_reused: how many tokens of the prompt were not computed.
        """


Finished = tuple[Request, BaseException | None]
"""A request that has ended, with what stopped it, if something did."""
