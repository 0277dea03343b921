"""The torch module: ids in, logits out, with a key-value cache and the last layer's attention.

Everything here runs on the model's worker thread and knows nothing of text.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from askance.core.errors import ModelSpecError
from askance.models.hf.attention import ATTENTION_NAME, capturing

_PREFILL_TOKENS = 512
"""A prompt is fed in pieces of this size, so that a long one can be abandoned half-way."""


@dataclass(slots=True)
class Context:
    """Everything fed so far: the cache (None before the first token) and its length in tokens."""

    cache: Any = None
    num_tokens: int = 0

    def fork(self) -> "Context":
        """A copy that can go on by itself."""
        return Context(copy.deepcopy(self.cache), self.num_tokens)


class Network:
    """A causal language model of transformers, in evaluation mode."""

    def __init__(self, module: Any, name: str) -> None:
        self._module = module
        self.device: torch.device = module.device
        self._keeps_logits = "logits_to_keep" in inspect.signature(module.forward).parameters
        self.attention_layer = self._probe(name)

    def feed(self, context: Context, ids: Sequence[int], *, keep_logits: int = 1) -> Tensor:
        """Append `ids` to `context`. Logits after the last of them, shape [keep_logits, vocabulary]."""
        options = {"logits_to_keep": keep_logits} if self._keeps_logits else {}
        tensor = torch.tensor([list(ids)], device=self.device)
        output = self._module(input_ids=tensor, past_key_values=context.cache, use_cache=True, **options)
        context.cache = output.past_key_values
        context.num_tokens += len(ids)
        logits: Tensor = output.logits[0, -keep_logits:]
        return logits

    def feed_watched(self, context: Context, token_id: int) -> tuple[Tensor, NDArray[np.float32]]:
        """`feed` of one token, and its attention over all positions: shape [heads, context.num_tokens]."""
        with capturing(self.attention_layer) as capture:
            logits = self.feed(context, (token_id,))
        assert capture.weights is not None
        row = capture.weights[:, 0].cpu().numpy()
        # A sliding window has dropped its oldest keys: their weight is 0.
        return logits, np.pad(row, ((0, 0), (context.num_tokens - row.shape[1], 0)))

    def prefill(self, ids: Sequence[int], check: Callable[[], None]) -> tuple[Context, Tensor]:
        """Feed a whole prompt; `check` runs between its pieces and may raise. Logits: [1, vocabulary]."""
        context = Context()
        for start in range(0, len(ids), _PREFILL_TOKENS):
            check()
            logits = self.feed(context, ids[start : start + _PREFILL_TOKENS])
        return context, logits

    def attend(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The last layer's weights of one pass over `ids` alone: shape [heads, ids, ids]."""
        with capturing(self.attention_layer) as capture:
            self.feed(Context(), ids)
        assert capture.weights is not None
        weights: NDArray[np.float32] = capture.weights.cpu().numpy()
        return weights

    def _probe(self, name: str) -> int | None:
        """Feed two tokens. Tells the last layer with attention we can read, or None.

        Raises:
            ModelSpecError: a model without a key-value cache.
        """
        module = self._module
        can_capture = module._supports_sdpa or getattr(
            module.config.get_text_config(), "attn_logit_softcapping", None
        )
        if can_capture:
            module.set_attn_implementation(ATTENTION_NAME)
        context = Context()
        with torch.inference_mode(), capturing(None) as capture:
            self.feed(context, (0, 0))
        if context.cache is None:
            raise ModelSpecError(
                f"model {name!r} keeps no key-value cache, which askance decodes with: "
                "use a transformer model, such as hf:Qwen/Qwen2.5-0.5B-Instruct."
            )
        return max(capture.layers_seen, default=None)
