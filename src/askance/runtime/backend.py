"""A `Batch` from both sides: what computes its passes, and the requests that it computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

S = TypeVar("S")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Feed(Generic[S]):
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
class Fed:
    """What a pass gives back for a feed, in the backend's own types.

    Attributes:
        logits: after each of the tokens that they were wanted after.
        attention: of each of those tokens, over all tokens up to itself, shape [heads, tokens]; nothing if it
            was not wanted.
    """

    logits: Sequence[Any]
    attention: Sequence[Any] = ()


class Backend(Protocol[S, B]):
    """Keeps keys and values, and computes.

    Attributes:
        bytes_per_token: of keys and values.
        num_reserved: tokens that open slots have room for.
        can_restore: whether blocks can be saved and restored.
        can_share: whether a slot takes over what it, or another one, holds of an earlier text.
        can_go_back: whether a feed may start before what the slot holds, and replaces that.
        max_feeds: of one pass.
        guessing_tokens: most tokens of what writes in one pass with guesses: up to here, more of them take
            little more time.
    """

    @property
    def bytes_per_token(self) -> int: ...
    @property
    def num_reserved(self) -> int: ...
    @property
    def can_restore(self) -> bool: ...
    @property
    def can_share(self) -> bool: ...
    @property
    def can_go_back(self) -> bool: ...
    @property
    def max_feeds(self) -> int: ...
    @property
    def guessing_tokens(self) -> int: ...

    def reserved_with(self, num_tokens: int) -> int:
        """What `num_reserved` would be with one more slot of so many tokens."""
        ...

    def num_known(self, ids: Sequence[int]) -> int:
        """How much of the beginning `ids` slots hold, to be shared; 0 where they do not share."""
        ...

    def open(self, num_tokens: int, ids: Sequence[int] = (), *, attention: bool = False) -> S:
        """A slot with room for so many tokens; where slots share, with as much of `ids` as is worth it.

        Args:
            attention: whether attention will be wanted.
        """
        ...

    def num_held(self, slot: S) -> int:
        """How much of its text a slot that was just opened holds."""
        ...

    def close(self, slot: S) -> None: ...

    def give_back(self) -> None:
        """Let go of the memory that no open slot needs."""
        ...

    def restore(self, slot: S, blocks: Sequence[tuple[B, int]]) -> None:
        """Fill the beginning of a slot with so many tokens of each block."""
        ...

    def save(self, slot: S, start: int, stop: int) -> B:
        """A copy of the keys and values of some tokens."""
        ...

    def forward(self, feeds: Sequence[Feed[S]]) -> Sequence[Fed]:
        """One pass over all feeds, each behind what its own slot holds.

        Raises:
            BaseException: the pass broke. If it had several feeds, each is tried again by itself.
        """
        ...


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

    def take(self, fed: Fed, num_reused: int) -> bool:
        """Take the logits after the last of `ids`, and put the next token behind them. Whether there is one.

        Args:
            num_reused: how many tokens of the prompt were not computed.
        """
        ...


Over = tuple[Request, BaseException | None]
"""A request that has ended, with what stopped it, if something did."""
