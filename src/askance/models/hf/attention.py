"""The attention function that transformers calls for every layer, for one sequence and for batched passes.

The output comes from the stock implementation. If a layer's attention weights are wanted, the module's own
eager attention computes them separately, in float32. The option `output_attentions` of transformers would
slow down every layer and keep every layer's matrix.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask

from askance.core.errors import ModelSpecError
from askance.core.notes import bound
from askance.inference.backend import StepInput
from askance.models.hf.kv_cache import KVPool, TorchSlot

ATTENTION_NAME = "askance"
States = tuple[Tensor, Tensor, Tensor]
"""Query, key and value, each of shape [batch, heads, tokens, head size]."""


class AttentionGroup:
    """The sequences of a pass with equally many new tokens, whose attention is computed together.

    Args:
        first: The index of the group's first new token among all tokens of the pass. The other new tokens of
            the group follow directly.

    Attributes:
        weights: The attention weights, shape [sequences, heads, new tokens, keys], once the pass is done, or
            None if they are not wanted.
    """

    def __init__(
        self, inputs: Sequence[StepInput[TorchSlot]], first: int, pool: KVPool, device: torch.device
    ) -> None:
        self._inputs, self._pool, self._num_new = inputs, pool, len(inputs[0].ids)
        self._tokens = slice(first, first + len(inputs) * self._num_new)
        self.weights: Tensor | None = None
        starts = torch.tensor([step_input.start for step_input in inputs], device=device)
        self._positions = starts[:, None] + torch.arange(self._num_new, device=device)
        # Shorter sequences are padded with copies of their last token. The mask hides these copies.
        keys = torch.arange(max(step_input.start for step_input in inputs) + self._num_new, device=device)
        last = [step_input.start + self._num_new - 1 for step_input in inputs]
        cells = [step_input.slot.cells.tensor for step_input in inputs if step_input.slot.cells is not None]
        self._cells = torch.stack([row[keys.clamp(max=end)] for row, end in zip(cells, last, strict=True)])
        self._new_cells = self._cells.gather(1, self._positions).flatten()
        self._masks: dict[int | None, Tensor] = {}

    def attend(self, module: Any, states: States, options: Mapping[str, Any], needs_weights: bool) -> Tensor:
        """Compute the attention of one layer for the new tokens of these sequences.

        Args:
            states: The query, key and value of all tokens of the pass.
            needs_weights: Whether this is the layer whose attention weights may be wanted.

        Returns:
            The output, shape [tokens, heads, head size].
        """
        query, key, value = (state[0].transpose(0, 1)[self._tokens] for state in states)
        self._pool.write(module.layer_idx, self._new_cells, key, value)
        keys, values = (each.transpose(1, 2) for each in self._pool.read(module.layer_idx, self._cells))
        queries = query.reshape(-1, self._num_new, *query.shape[1:]).transpose(1, 2)
        mask = self._mask(options.get("sliding_window"), query.dtype)
        is_wanted = needs_weights and any(step_input.wants_attention for step_input in self._inputs)
        output, weights = compute_attention(module, (queries, keys, values), mask, options, is_wanted)
        self.weights = weights if is_wanted else self.weights
        return output.flatten(0, 1)

    def _mask(self, window: int | None, dtype: torch.dtype) -> Tensor:
        """Return the mask for all layers with this sliding window: shape [sequences, 1, new tokens, keys]."""
        if window not in self._masks:
            keys, last = torch.arange(self._cells.shape[1], device=self._cells.device), self._positions
            is_hidden = keys > last[..., None]
            if window is not None:
                is_hidden |= keys <= last[..., None] - window
            mask = torch.zeros_like(is_hidden, dtype=dtype).masked_fill(is_hidden, torch.finfo(dtype).min)
            self._masks[window] = mask[:, None]
        return self._masks[window]

    def attention(self) -> Iterator[NDArray[Any] | None]:
        """Yield the attention weights of the last token of each sequence, or None if they are not wanted."""
        for row, step_input in enumerate(self._inputs):
            if self.weights is None or not step_input.wants_attention:
                yield None
            else:
                num_keys = step_input.start + self._num_new
                yield self.weights[row, :, -1, :num_keys].cpu().numpy()


@dataclass(slots=True, eq=False)
class ForwardContext:
    """The inputs and outputs of the attention layers in one forward pass.

    Attributes:
        attention_layer: The layer whose attention weights are wanted, or None.
        groups: The groups of sequences in a batched pass. Empty if the pass computes a single sequence with
            the KV cache of transformers.
        windows: The sliding window of each layer, by layer index: a number of tokens, or None for no window.
        weights: The attention weights of a single sequence, shape [heads, queries, keys].
    """

    attention_layer: int | None = None
    groups: Sequence[AttentionGroup] = ()
    windows: dict[int | None, int | None] = field(default_factory=dict)
    weights: Tensor | None = None


_active_context: ContextVar[ForwardContext] = ContextVar("active_forward_context")


@contextmanager
def forward_context(context: ForwardContext) -> Iterator[ForwardContext]:
    """Use `context` for the forward passes that this thread computes inside the block."""
    with bound(_active_context, context):
        yield context


def attention_forward(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, **options: Any
) -> tuple[Tensor, None]:
    """Compute the attention of one layer. Transformers calls this function for every layer.

    Returns:
        The output, shape [1, queries, heads, head size].

    Raises:
        ModelSpecError: The layer has attention sinks, so its weights do not sum to 1.
    """
    if options.get("s_aux") is not None:
        raise ModelSpecError(
            "this model's attention has sinks, with which its weights can't be read: name another model."
        )
    context = _active_context.get(None) or ForwardContext()
    layer = getattr(module, "layer_idx", None)
    context.windows[layer] = options.get("sliding_window")
    needs_weights = layer is not None and layer == context.attention_layer
    states = query, key, value
    if context.groups:
        outputs = [group.attend(module, states, options, needs_weights) for group in context.groups]
        return torch.cat(outputs)[None], None
    output, weights = compute_attention(module, states, attention_mask, options, needs_weights)
    if weights is not None:
        context.weights = weights[0]
    return output, None


def use_own_attention(module: Any) -> None:
    """Let a model of transformers compute attention by `attention_forward`, if it can."""
    if module._supports_sdpa or getattr(module.config.get_text_config(), "attn_logit_softcapping", None):
        module.set_attn_implementation(ATTENTION_NAME)


def compute_attention(
    module: nn.Module, states: States, mask: Tensor | None, options: Mapping[str, Any], needs_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """Compute the output of attention and, if needed, its weights.

    The weights are computed in float32 even if the model's precision is coarser, since rounded scores would
    change the weights by a half.

    Returns:
        The output, shape [batch, queries, heads, head size], and the weights, shape [batch, heads, queries,
        keys], or None if they are not needed.
    """
    eager = sys.modules[type(module).__module__].eager_attention_forward
    if options.get("softcap") is not None:  # stock attention does not support a soft cap on the scores
        output, _ = eager(module, *states, mask, **options)
    elif states[0].device.type == "cpu" and mask is not None and options.get("position_bias") is None:
        output = _grouped_attention(states, mask, options)
    else:
        output, _ = sdpa_attention_forward(module, *states, mask, **options)
    if not needs_weights or mask is None:
        return output, None
    return output, eager(module, *(tensor.float() for tensor in (*states, mask)), **options)[1]


def _grouped_attention(states: States, mask: Tensor, options: Mapping[str, Any]) -> Tensor:
    """Compute stock attention on a CPU, where heads that share keys need no copies of them.

    Stock attention of transformers makes the copies, since GPUs are faster with them if there is a mask.
    """
    output = scaled_dot_product_attention(
        *states, attn_mask=mask, scale=options.get("scaling"), enable_gqa=True
    )
    return output.transpose(1, 2)


AttentionInterface.register(ATTENTION_NAME, attention_forward)
AttentionMaskInterface.register(ATTENTION_NAME, eager_mask)
