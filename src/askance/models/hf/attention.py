"""What transformers calls for the attention of every layer, registered beside its own implementations.

Whoever runs a pass names with `reading_by` what computes its attention. A `Capture` calls the stock
implementation and, for one layer, computes the softmax again from the same query, key, scaling and mask: the
option `output_attentions` of transformers would make every layer slow and keep every layer's matrix.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from askance.core.errors import ModelSpecError
from askance.models.hf.slots import KeyShape

ATTENTION_NAME = "askance"


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """What transformers gives for the attention of one layer.

    Attributes:
        query: shape [1, heads, queries, size]; key and value: [1, key-value heads, keys, size].
        options: what else it says, such as `scaling`.
    """

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    options: Mapping[str, Any]

    @property
    def index(self) -> int | None:
        """Its number among the layers; None where the module does not tell."""
        return getattr(self.module, "layer_idx", None)

    @property
    def scaling(self) -> float:
        """What scores are multiplied by."""
        told = self.options.get("scaling")
        return self.query.shape[-1] ** -0.5 if told is None else float(told)


class Reader(Protocol):
    """Computes the attention of the layers of a pass."""

    def attend(self, layer: Layer) -> Tensor:
        """The output of one layer, shape [1, queries, heads, size of a value]."""
        ...


@dataclass(slots=True)
class Capture:
    """A `Reader` for passes over one text, and what the last of them left behind.

    Attributes:
        layer: index of the layer to read; None reads none, and only lists the layers that went by.
        weights: shape [heads, queries, keys], float32, after the pass.
        shapes: of keys and values, by index of the layers whose attention went by.
    """

    layer: int | None = None
    weights: Tensor | None = None
    shapes: dict[int, KeyShape] = field(default_factory=dict)

    def attend(self, layer: Layer) -> Tensor:
        """See `Reader.attend`."""
        index, key, value, options = layer.index, layer.key, layer.value, layer.options
        if index is not None:
            self.shapes[index] = KeyShape(key.shape[1], key.shape[3], value.shape[3])
        is_wanted = index is not None and index == self.layer
        # Stock attention knows no soft cap on the scores, so those models get both from the weights.
        is_capped = options.get("softcap") is not None
        weights = _weights(layer) if is_wanted or is_capped else None
        if is_wanted and weights is not None:
            self.weights = weights[0]
        if is_capped and weights is not None:
            repeated = _repeat_heads(value, layer.query.shape[1])
            return (weights.to(value.dtype) @ repeated).transpose(1, 2).contiguous()
        stock, _ = sdpa_attention_forward(layer.module, layer.query, key, value, layer.mask, **options)
        output: Tensor = stock
        return output


R = TypeVar("R", bound=Reader)
_active: ContextVar[Reader] = ContextVar("active_reader")


@contextmanager
def reading_by(reader: R) -> Iterator[R]:
    """Forward passes of this thread inside the block get their attention from `reader`."""
    token = _active.set(reader)
    try:
        yield reader
    finally:
        _active.reset(token)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Transformers calls this for every layer; see `Reader.attend`.

    Raises:
        ModelSpecError: attention sinks, whose weights do not sum to 1, beside stock attention.
    """
    if options.get("s_aux") is not None:
        raise ModelSpecError(
            "this model's attention has sinks, with which its weights can't be read: name another model."
        )
    reader = _active.get(None) or Capture()
    return reader.attend(Layer(module, query, key, value, attention_mask, options)), None


def _weights(layer: Layer) -> Tensor:
    """Softmax rows, float32, shape [1, heads, queries, keys]."""
    options, keys = layer.options, _repeat_heads(layer.key, layer.query.shape[1]).float()
    scores = layer.query.float() @ keys.transpose(-1, -2) * layer.scaling
    cap = options.get("softcap")
    if cap is not None:
        scores = torch.tanh(scores / cap) * cap
    bias = options.get("position_bias")
    if bias is not None:
        scores = scores + bias
    return torch.softmax(_masked(scores, layer.mask, _is_causal(layer.module, options)), dim=-1)


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


def _is_causal(module: nn.Module, options: Mapping[str, Any]) -> bool:
    given = options.get("is_causal")
    return bool(getattr(module, "is_causal", True) if given is None else given)


def _repeat_heads(keys_or_values: Tensor, num_heads: int) -> Tensor:
    """Grouped-query attention: each key-value head serves several neighbouring query heads."""
    group = num_heads // keys_or_values.shape[1]
    return keys_or_values if group == 1 else keys_or_values.repeat_interleave(group, dim=1)


AttentionInterface.register(ATTENTION_NAME, attend)
AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
