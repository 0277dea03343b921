"""Llama and its kin, computed with a third of the calls that transformers makes.

A small model on a CPU waits for dispatching more than for arithmetic. Projections of the same input are one
matrix here, norms and rotations a few operations, and attention goes straight to the pass. It takes the
module's own weights, in place of which the module keeps views of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, silu

from askance.models.hf.parts import Layer
from askance.models.hf.passes import Pass
from askance.models.hf.products import MOST_PACKED_BYTES, Product

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
"""Kinds that differ in nothing but biases, windows, and norms of queries and keys."""


@dataclass(frozen=True, slots=True, eq=False)
class _Norm:
    weight: Tensor
    epsilon: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Divided by the root of the mean square over the last dimension, times the weight."""
        wide = x.float()
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        scale = torch.addcmul(self.epsilon, length, length, value=1 / x.shape[-1]).rsqrt_()
        return (wide * scale).to(x.dtype) * self.weight


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """The weights of a layer, and what else makes it up."""

    attention_norm: _Norm
    query_key_value: Product
    query_norm: _Norm | None
    key_norm: _Norm | None
    attention_out: Product
    scaling: float
    window: int | None
    mlp_norm: _Norm
    gate_up: Product
    down: Product


class LeanRows:
    """The `Rows` of a module of one of `MODEL_TYPES`.

    Args:
        windows: the sliding window of each layer.

    Raises:
        AttributeError, TypeError: the module is not made as those are; some of its weights may be views by
            then, with the same values.
    """

    def __init__(self, module: Any, windows: Sequence[int | None]) -> None:
        body = module.model
        self._rotation = body.rotary_emb
        self._head_size = int(body.layers[0].self_attn.head_dim)
        self._embedding: Tensor = body.embed_tokens.weight
        packs = sum(weights.nbytes for weights in module.parameters()) <= MOST_PACKED_BYTES
        self._layers = [_layer(each, windows[index], packs) for index, each in enumerate(body.layers)]
        self._norm, self._logits = _norm(body.norm), _product(module.lm_head, packs)

    def __call__(self, ids: Tensor, positions: Tensor, kept: Tensor, this: Pass) -> Tensor:
        x = embedding(ids, self._embedding)
        cosines, sines = (each[0, :, None] for each in self._rotation(x, positions[None]))
        half = self._head_size // 2
        signed = torch.cat((-sines[..., :half], sines[..., half:]), dim=-1)
        for index, layer in enumerate(self._layers):
            x = x + self._attended(index, layer, layer.attention_norm(x), (cosines, signed), this)
            gate, up = layer.gate_up(layer.mlp_norm(x)).chunk(2, dim=-1)
            x = x + layer.down(silu(gate) * up)
        return self._logits(self._norm(x[kept]))

    def _attended(
        self, index: int, layer: _Layer, x: Tensor, rotation: tuple[Tensor, Tensor], this: Pass
    ) -> Tensor:
        # Row by row: stock attention takes its slow way where the numbers of a head are apart.
        heads = layer.query_key_value(x).contiguous().reshape(len(x), -1, self._head_size)
        num_queries = layer.attention_out.weight.shape[1] // self._head_size
        num_keys = (heads.shape[1] - num_queries) // 2
        turned, value = heads[:, : num_queries + num_keys], heads[:, num_queries + num_keys :]
        if layer.query_norm is not None and layer.key_norm is not None:
            query, key = turned[:, :num_queries], turned[:, num_queries:]
            turned = torch.cat((layer.query_norm(query), layer.key_norm(key)), dim=1)
        cosines, signed = rotation
        turned = torch.addcmul(turned * cosines, turned.roll(self._head_size // 2, dims=-1), signed)
        query, key = turned[:, :num_queries], turned[:, num_queries:]
        found = this.attend(Layer(index, query, key, value, layer.scaling, layer.window))
        return layer.attention_out(found.view(len(x), -1))


def is_kin(module: Any) -> bool:
    """Whether a module may be computed by `LeanRows`: what it then gives is still to be compared."""
    config = module.config
    return (
        config.model_type in MODEL_TYPES
        and len({weights.device for weights in module.parameters()}) == 1
        and not any(map(_is_changed, module.modules()))
    )


def _is_changed(part: Any) -> bool:
    """Whether somebody made a part compute otherwise than its class does."""
    return bool("forward" in vars(part) or part._forward_hooks or part._forward_pre_hooks)


def _layer(layer: Any, window: int | None, packs: bool) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    query_norm, key_norm = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
    return _Layer(
        attention_norm=_norm(layer.input_layernorm),
        query_key_value=_joined((attention.q_proj, attention.k_proj, attention.v_proj), packs),
        query_norm=None if query_norm is None else _norm(query_norm),
        key_norm=None if key_norm is None else _norm(key_norm),
        attention_out=_product(attention.o_proj, packs),
        scaling=float(attention.scaling),
        window=window,
        mlp_norm=_norm(layer.post_attention_layernorm),
        gate_up=_joined((mlp.gate_proj, mlp.up_proj), packs),
        down=_product(mlp.down_proj, packs),
    )


def _norm(norm: Any) -> _Norm:
    epsilon = torch.tensor([norm.variance_epsilon], dtype=torch.float32, device=norm.weight.device)
    return _Norm(norm.weight.detach(), epsilon)


def _product(part: Any, packs: bool) -> Product:
    if type(part) is not nn.Linear:  # quantised ones, adapters and the like have weights of their own kinds
        raise TypeError(f"{type(part).__name__} where a plain linear layer was expected")
    bias = None if part.bias is None else part.bias.detach()
    return Product(part.weight.detach(), bias, packs=packs)


def _joined(parts: Sequence[Any], packs: bool) -> Product:
    """One product for several; the parts keep views of it, so that no weight is held twice."""
    products = [_product(part, packs) for part in parts]
    weight = _shared([part.weight for part in products], parts, "weight")
    biases = [part.bias for part in products if part.bias is not None]
    if biases and len(biases) < len(products):
        raise TypeError("some products have a bias, others have none")
    return Product(weight, _shared(biases, parts, "bias") if biases else None, packs=packs)


def _shared(tensors: Sequence[Tensor], owners: Sequence[Any], name: str) -> Tensor:
    whole = torch.cat([tensor.detach() for tensor in tensors])
    start = 0
    for owner, tensor in zip(owners, tensors, strict=True):
        setattr(owner, name, nn.Parameter(whole[start : start + len(tensor)], requires_grad=False))
        start += len(tensor)
    return whole
