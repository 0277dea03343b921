"""The attention of one layer, read out while the model runs on stock scaled-dot-product attention.

The option `output_attentions` of transformers makes every layer slow and keeps every layer's matrix. Here
one function is registered beside the stock ones; it calls the stock one and, for the layer that a `Capture`
names, computes the softmax again from the same query, key, scaling and mask.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from askance.core.errors import ModelSpecError
from askance.models.hf.passes import attend_in_pass
from askance.models.hf.slots import KeyShape

ATTENTION_NAME = "askance"


@dataclass(slots=True)
class Capture:
    """What one forward pass left behind.

    Attributes:
        layer: index of the layer to read; None reads none, and only lists the layers that went by.
        weights: shape [heads, queries, keys], float32, after the pass.
        shapes: of keys and values, by index of the layers whose attention ran through `attend_and_capture`.
    """

    layer: int | None
    weights: Tensor | None = None
    shapes: dict[int, KeyShape] = field(default_factory=dict)


_active: ContextVar[Capture | None] = ContextVar("active_capture", default=None)


@contextmanager
def capturing(layer: int | None) -> Iterator[Capture]:
    """Forward passes of this thread inside the block fill the capture; the last one wins."""
    capture = Capture(layer)
    token = _active.set(capture)
    try:
        yield capture
    finally:
        _active.reset(token)


def attend_and_capture(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Transformers calls this for every layer: the stock result, and the weights aside if they are wanted.

    Shapes: query [1, heads, queries, size]; key and value [1, key-value heads, keys, size].

    Raises:
        ModelSpecError: attention sinks, whose weights do not sum to 1, beside stock attention.
    """
    if options.get("s_aux") is not None:
        raise ModelSpecError(
            "this model's attention has sinks, with which its weights can't be read: name another model."
        )
    layer = getattr(module, "layer_idx", None)
    if layer is not None:
        passed = attend_in_pass(layer, query, key, value, options)
        if passed is not None:
            return passed, None
    capture = _active.get()
    if capture is not None and layer is not None:
        capture.shapes[layer] = KeyShape(key.shape[1], key.shape[3], value.shape[3])
    is_wanted = capture is not None and layer is not None and layer == capture.layer
    # Stock attention knows no soft cap on the scores, so those models get both from the weights.
    is_capped = options.get("softcap") is not None
    weights = _weights(module, query, key, attention_mask, options) if is_wanted or is_capped else None
    if is_wanted and capture is not None and weights is not None:
        capture.weights = weights[0]
    if is_capped and weights is not None:
        repeated = _repeat_heads(value, query.shape[1])
        return (weights.to(value.dtype) @ repeated).transpose(1, 2).contiguous(), None
    output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return output, None


def _weights(
    module: nn.Module, query: Tensor, key: Tensor, mask: Tensor | None, options: dict[str, Any]
) -> Tensor:
    """Softmax rows, float32, shape [1, heads, queries, keys]."""
    scaling = options.get("scaling")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    keys = _repeat_heads(key, query.shape[1]).float()
    scores = query.float() @ keys.transpose(-1, -2) * scaling
    cap = options.get("softcap")
    if cap is not None:
        scores = torch.tanh(scores / cap) * cap
    bias = options.get("position_bias")
    if bias is not None:
        scores = scores + bias
    return torch.softmax(_masked(scores, mask, _is_causal(module, options)), dim=-1)


def _masked(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    num_queries, num_keys = scores.shape[-2:]
    if mask is None:
        if num_queries == 1 or not is_causal:
            return scores
        # Query i of the pass sits at key position i + offset.
        mask = torch.ones(num_queries, num_keys, dtype=torch.bool, device=scores.device)
        mask = mask.tril(num_keys - num_queries)
    mask = mask[..., :num_keys]
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, -torch.inf)
    return scores + mask.float()


def _is_causal(module: nn.Module, options: dict[str, Any]) -> bool:
    given = options.get("is_causal")
    return bool(getattr(module, "is_causal", True) if given is None else given)


def _repeat_heads(keys_or_values: Tensor, num_heads: int) -> Tensor:
    """Grouped-query attention: each key-value head serves several neighbouring query heads."""
    group = num_heads // keys_or_values.shape[1]
    return keys_or_values if group == 1 else keys_or_values.repeat_interleave(group, dim=1)


AttentionInterface.register(ATTENTION_NAME, attend_and_capture)
AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
