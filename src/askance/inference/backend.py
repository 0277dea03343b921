"""The two interfaces that an `LLMEngine` uses: the backend that computes, and the requests to serve."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class KVSlot(Protocol):
    """The part of the KV cache that holds one sequence.

    Attributes:
        num_cached_tokens: The number of prompt tokens whose keys and values were cached when the slot was
            opened.
    """

    num_cached_tokens: int


S = TypeVar("S", bound=KVSlot)


@dataclass(frozen=True, slots=True)
class StepInput(Generic[S]):
    """The tokens that a forward pass computes for one sequence.

    Attributes:
        slot: The KV slot of the sequence. The pass writes the keys and values of `ids` into the slot, after
            the first `start` tokens.
        start: The position in the sequence of the first token of `ids`.
        ids: The token ids to compute.
        num_logits: The number of tokens at the end of `ids` whose logits are wanted.
        wants_attention: Whether the last layer's attention weights are wanted for the last token of `ids`.
    """

    slot: S
    start: int
    ids: Sequence[int]
    num_logits: int
    wants_attention: bool


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The output of a forward pass for one `StepInput`, in the backend's own types.

    Attributes:
        logits: The logits of the last `num_logits` input tokens, each of shape [vocabulary].
        attention: The attention weights of the last input token over all tokens up to and including itself,
            shape [heads, tokens]; None if attention was not wanted.
    """

    logits: Sequence[Any]
    attention: Any = None


class Backend(Protocol[S]):
    """A model with its KV cache, which computes forward passes over the slots of running sequences.

    A backend keeps the keys and values of finished sequences as a prefix cache while there is room.

    Attributes:
        budget_tokens: The capacity of the KV cache in tokens, for running sequences and the prefix cache
            together.
        can_batch: Whether one pass can compute several sequences, and a new slot can reuse a cached prefix.
    """

    @property
    def budget_tokens(self) -> int: ...
    @property
    def can_batch(self) -> bool: ...

    def reserved_tokens_with(self, num_tokens: int) -> int:
        """Return how many tokens all slots would reserve together if a slot of `num_tokens` were opened."""

    def num_cached_tokens(self, ids: Sequence[int]) -> int:
        """Return the length of the longest prefix of `ids` that a new slot could reuse, which may be 0."""

    def open(self, num_tokens: int, ids: Sequence[int] = (), *, attention: bool = False) -> S:
        """Open a slot for a sequence, and fill the slot with the cached part of the prompt.

        Args:
            num_tokens: The capacity of the slot in tokens.
            ids: The part of the prompt that may come from the prefix cache.
            attention: Whether attention weights will be wanted.

        Raises:
            BaseException: There is not enough memory.
        """

    def cache_prefix(self, slot: S, ids: Sequence[int]) -> None:
        """Keep the keys and values of a slot's first tokens in the prefix cache, if there is room.

        Args:
            ids: The ids of those tokens.
        """

    def close(self, slot: S) -> None:
        """Free the slot of a finished sequence."""

    def clear_cache(self) -> None:
        """Drop the keys and values of all finished sequences."""

    def forward(self, inputs: Sequence[StepInput[S]]) -> Sequence[StepOutput]:
        """Compute one forward pass, in which each sequence attends only to its own slot.

        Raises:
            BaseException: The pass failed. If it had several inputs, the engine retries each of them alone.
        """


class Request(Protocol):
    """A sequence to compute.

    Attributes:
        ids: The token ids so far: the prompt, then the generated tokens.
        max_tokens: The greatest number of tokens that `ids` can have.
        num_logits: The number of tokens at the end of the prompt whose logits are wanted.
        wants_attention: Whether the attention weights of generated tokens are wanted.
        is_abandoned: Whether the caller has stopped waiting for the result, which can happen at any time.
    """

    ids: list[int]
    max_tokens: int
    num_logits: int
    wants_attention: bool
    is_abandoned: bool

    def take(self, output: StepOutput, num_cached_tokens: int) -> bool:
        """Process the output of a pass. A request that generates text appends the next token to `ids`.

        Args:
            num_cached_tokens: The number of prompt tokens that came from the prefix cache.

        Returns:
            Whether the sequence needs another pass.
        """


Finished = tuple[Request, BaseException | None]
"""A finished request, and the error that ended it, or None if it did not fail."""
