"""The inputs of a pass of llama.cpp: which texts it computes together, and what is read of each of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from askance.inference.backend import StepInput

_MAX_BATCHED_TOKENS = 4
"""The greatest number of tokens that each text may have in a pass over several texts."""


@dataclass(slots=True, eq=False)
class SequenceSlot:
    """A sequence in a llama.cpp context, used as the KV slot of a text.

    Attributes:
        num_prefilled: The number of those tokens that were computed as part of a prompt.
        num_prefix_tokens: The number of tokens that are certainly part of the prompt. Decoding starts at this
            position or later.
        num_cached_tokens: The number of the text's tokens that the slot held when it was opened.
        closed_at: A logical time stamp: the number of slots that had been closed when this one last was.
    """

    seq_id: int
    ids: list[int] = field(default_factory=list)
    num_prefilled: int = 0
    num_prefix_tokens: int = 0
    is_open: bool = False
    num_cached_tokens: int = 0
    closed_at: int = 0


LlamaInput = StepInput[SequenceSlot]


def groups(inputs: Sequence[LlamaInput]) -> Iterator[list[LlamaInput]]:
    """Yield groups of inputs to compute together.

    A group is either several neighbouring sequences with the same small number of tokens, or a single input.
    """
    group = list[LlamaInput]()
    for step_input in sorted(inputs, key=lambda step_input: (len(step_input.ids), step_input.slot.seq_id)):
        if group:
            is_neighbour = step_input.slot.seq_id == group[-1].slot.seq_id + 1
            if not (is_neighbour and len(step_input.ids) == len(group[-1].ids) <= _MAX_BATCHED_TOKENS):
                yield group
                group = []
        group.append(step_input)
    yield group


def is_prefill(step_input: LlamaInput) -> bool:
    """Return whether an input is part of a prompt.

    Every part of a prompt starts at or before the first token whose logits are wanted. Decoding starts after
    that token.
    """
    return step_input.start <= step_input.slot.num_prefix_tokens


def of_two_tokens(step_input: LlamaInput) -> LlamaInput:
    """Return an input, with the previous token prepended if the input has only one token."""
    if len(step_input.ids) > 1 or not step_input.start:
        return step_input
    slot, start = step_input.slot, step_input.start - 1
    return replace(step_input, start=start, ids=(slot.ids[start], *step_input.ids))


def attention_of(step_input: LlamaInput, weights: NDArray[np.float32] | None) -> list[NDArray[np.float32]]:
    """Return the attention weights of each token of an input, each of shape [heads, tokens].

    The cells of a sequence are in the order of its tokens.
    """
    if weights is None or not step_input.wants_attention:
        return []
    return [weights[:, index, : step_input.start + index + 1] for index in range(len(step_input.ids))]
