"""The backend for torch models: batched forward passes over the KV cache, and the prefix cache."""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, groupby, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from askance.core.errors import ModelSpecError
from askance.inference.backend import StepInput, StepOutput
from askance.inference.prefix_cache import PrefixCache
from askance.models.hf.attention import AttentionGroup, ForwardContext, forward_context, use_own_attention
from askance.models.hf.kv_cache import KVCells, KVPool, TorchSlot
from askance.models.hf.logits import rows_of

_TOLERANCE, _COARSE_TOLERANCE = 1e-3, 0.1
"""The allowed difference between the logits of a batched pass and those of the module alone, as a fraction of
the greatest absolute logit. Both values exceed rounding errors. The second is for 16-bit precisions."""
_LENGTH_DEPENDENT_ROPE = ("dynamic", "longrope")
"""The kinds of rotary embeddings that transformers recomputes when a sequence exceeds a certain length."""


class TorchBackend:
    """A causal language model of transformers, in evaluation mode, as the `Backend` of an `LLMEngine`.

    A pass concatenates the tokens of all sequences without padding, so that each layer computes them
    together. Only attention needs to know which token belongs to which sequence. If a module gives different
    logits for concatenated sequences, the backend computes one sequence at a time with the KV cache of
    transformers, and has no prefix cache.

    Args:
        batched: Whether to try to compute several sequences in one pass.

    Attributes:
        attention_layer: The index of the last layer whose attention can be read, or None.
        bytes_per_token: The bytes that the keys and values of one token take in all layers.
        num_reserved: The number of tokens that open slots reserve.

    Raises:
        ModelSpecError: The model has no KV cache.
    """

    budget_tokens = 0

    def __init__(self, module: Any, name: str, *, batched: bool = True) -> None:
        self.module = module
        self.device: torch.device = module.device
        self._takes_logits_to_keep = "logits_to_keep" in inspect.signature(module.forward).parameters
        windows, self.bytes_per_token = self._probe(name)
        self.attention_layer = max((layer for layer in windows if layer is not None), default=None)
        self.num_reserved, self._pool, self._cache = 0, KVPool(self.device), PrefixCache[KVCells]()
        self.can_batch = batched
        self.can_batch = batched and self._supports_batching(windows)
        # The pool of the trial is dropped, since its tensors can't be changed outside of inference mode.
        self.num_reserved, self._pool = 0, KVPool(self.device)

    def reserved_tokens_with(self, num_tokens: int) -> int:
        return self.num_reserved + num_tokens

    def num_cached_tokens(self, ids: Sequence[int]) -> int:
        return self._cache.find(ids)[1] if self.can_batch else 0

    def open(self, num_tokens: int, ids: Sequence[int] = (), *, attention: bool = False) -> TorchSlot:
        slot = None
        with suppress(RuntimeError, MemoryError):
            slot = self._open(num_tokens, ids)
        if slot is None:  # there is less memory than expected, so the prefix cache is cleared
            self.clear_cache()
            slot = self._open(num_tokens, ())
        self.num_reserved += num_tokens
        return slot

    def _open(self, num_tokens: int, ids: Sequence[int]) -> TorchSlot:
        if not self.can_batch:
            return TorchSlot(num_tokens)
        block, num_cached = self._cache.find(ids)
        self._limit_cache(self.num_reserved + num_tokens)
        cells = self._pool.allocate(num_tokens)
        if block is not None:
            cells = cells.with_prefix(block, num_cached)
        return TorchSlot(num_tokens, num_cached, cells)

    def _limit_cache(self, num_reserved: int) -> None:
        self._cache.limit(max(0, self.budget_tokens - num_reserved))

    def cache_prefix(self, slot: TorchSlot, ids: Sequence[int]) -> None:
        if slot.cells is not None:
            self._cache.add(tuple(ids), slot.cells.prefix(len(ids)))

    def close(self, slot: TorchSlot) -> None:
        self.num_reserved -= slot.num_tokens
        slot.cells = slot.cache = None
        self._limit_cache(self.num_reserved)

    def clear_cache(self) -> None:
        self._cache.clear()
        self._pool.free_memory()

    @torch.inference_mode()
    def forward(self, inputs: Sequence[StepInput[TorchSlot]]) -> list[StepOutput]:
        return self._forward_batch(inputs) if self.can_batch else [self._forward_one(one) for one in inputs]

    @torch.inference_mode()
    def attention_map(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the last layer's attention weights over the sequence `ids`: shape [heads, queries, keys]."""
        with forward_context(ForwardContext(self.attention_layer)) as context:
            self.module(input_ids=self._row(ids), use_cache=False)
        assert context.weights is not None
        weights: NDArray[np.float32] = context.weights.cpu().numpy()
        return weights

    def _forward_batch(self, inputs: Sequence[StepInput[TorchSlot]]) -> list[StepOutput]:
        """Compute all sequences in one pass.

        Attention is computed together for sequences with the same number of new tokens.
        """
        ordered = sorted(inputs, key=lambda step_input: len(step_input.ids))
        groups, first = list[AttentionGroup](), 0
        for length, same_length in groupby(ordered, key=lambda step_input: len(step_input.ids)):
            members = [*same_length]
            groups.append(AttentionGroup(members, first, self._pool, self.device))
            first += length * len(members)
        ids, positions, kept = list[int](), list[int](), list[int]()
        for step_input in ordered:
            ids += step_input.ids
            positions += range(step_input.start, step_input.start + len(step_input.ids))
            kept += range(len(ids) - step_input.num_logits, len(ids))
        with forward_context(ForwardContext(self.attention_layer, groups)):
            output = self.module(
                input_ids=self._row(ids),
                position_ids=self._row(positions),
                # This mask keeps transformers from making its own; nothing reads it.
                attention_mask=torch.ones((1, 1, 1, 1), dtype=torch.bool, device=self.device),
                use_cache=False,  # the pool is the cache
                logits_to_keep=self._row(kept)[0],
            )
        rows = iter(rows_of(output.logits[0]))
        weights = chain.from_iterable(group.attention() for group in groups)
        outputs = {
            id(step_input): StepOutput([next(rows) for _ in range(step_input.num_logits)], attention)
            for step_input, attention in zip(ordered, weights, strict=True)
        }
        return [outputs[id(step_input)] for step_input in inputs]

    def _forward_one(self, step_input: StepInput[TorchSlot]) -> StepOutput:
        """Compute one sequence with the KV cache of transformers."""
        options = {"logits_to_keep": max(1, step_input.num_logits)} if self._takes_logits_to_keep else {}
        slot, layer = step_input.slot, self.attention_layer if step_input.wants_attention else None
        with forward_context(ForwardContext(layer)) as context:
            output = self.module(
                input_ids=self._row(step_input.ids), past_key_values=slot.cache, use_cache=True, **options
            )
        slot.cache = output.past_key_values
        logits = output.logits[0]
        rows = rows_of(logits[len(logits) - step_input.num_logits :])
        if context.weights is None:
            return StepOutput(rows)
        # Tokens that a sliding window has dropped have the weight 0.
        num_dropped = step_input.start + len(step_input.ids) - context.weights.shape[-1]
        return StepOutput(rows, np.pad(context.weights[:, -1].cpu().numpy(), ((0, 0), (num_dropped, 0))))

    def _row(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor([numbers], dtype=torch.long, device=self.device)

    @torch.inference_mode()
    def _probe(self, name: str) -> tuple[Mapping[int | None, int | None], int]:
        """Compute two tokens to see which layers call the attention function.

        Returns:
            The sliding window of each of those layers, and the bytes that one token takes in the KV cache.
        """
        module = self.module
        use_own_attention(module)
        with forward_context(ForwardContext()) as context:
            cache = module(input_ids=self._row((0, 0)), use_cache=True).past_key_values
        if cache is None:
            raise ModelSpecError(
                f"model {name!r} keeps no key-value cache, which askance decodes with: "
                "use a transformer model, such as hf:Qwen/Qwen2.5-0.5B-Instruct, or this one as a GGUF "
                "file (gguf:FILE)."
            )
        stores = [getattr(layer, kind, None) for layer in cache.layers for kind in ("keys", "values")]
        return context.windows, max(1, sum(store.nbytes for store in stores if store is not None) // 2)

    def _supports_batching(self, windows: Mapping[int | None, int | None]) -> bool:
        """Return whether batched passes give each sequence the same logits as a pass over the sequence alone.

        Args:
            windows: The sliding window that each layer passed to the attention function. Batched passes would
                ignore a window that a layer applies only in the mask, and a trial with short sequences would
                not reveal this.
        """
        # If the longest sequence of a pass changes the rotary embeddings, the other sequences change, too.
        rope_types = [str(getattr(part, "rope_type", "")) for part in self.module.modules()]
        if windows != self._configured_windows():
            return False
        if any(kind in rope_type for rope_type in rope_types for kind in _LENGTH_DEPENDENT_ROPE):
            return False
        try:
            return self._is_batching_exact()
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception:  # a module that does not expect batched passes may raise anything
            return False

    def _configured_windows(self) -> dict[int | None, int | None]:
        """Return the sliding window that each layer should have according to the configuration.

        None means no window, and 0 means that the type of the layer is unknown.
        """
        config = self.module.config.get_text_config()
        size = getattr(config, "sliding_window", None) or None
        by_type = {"full_attention": None, "sliding_attention": size}
        default = "sliding_attention" if getattr(config, "use_sliding_window", True) else "full_attention"
        num_layers = getattr(config, "num_hidden_layers", 0)
        layer_types = getattr(config, "layer_types", None) or [default] * num_layers
        return {layer: by_type.get(layer_type, 0) for layer, layer_type in enumerate(layer_types)}

    @torch.inference_mode()
    def _is_batching_exact(self) -> bool:
        """Return whether two sequences, batched in several chunks, get the same logits as each alone."""
        texts = [[*range(10)], [*range(9, 2, -1)]]
        slots = [self.open(len(text)) for text in texts]
        for starts, stops in pairwise(((0, 0), (6, 5), (9, 6), (10, 7))):
            inputs = [
                StepInput(slot, start, text[start:stop], 1, False)
                for slot, text, start, stop in zip(slots, texts, starts, stops, strict=True)
            ]
            outputs = self._forward_batch(inputs)
        tolerance = _TOLERANCE if self.module.dtype.itemsize >= 4 else _COARSE_TOLERANCE
        for output, text in zip(outputs, texts, strict=True):
            alone = self.module(input_ids=self._row(text)).logits[0, -1]
            if not (output.logits[-1].logits - alone).abs().max() <= tolerance * alone.abs().max():
                return False
        return True
