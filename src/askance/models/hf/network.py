"""The torch module: ids in, logits out, with a key-value cache and the last layer's attention.

Everything here runs on the model's worker thread and knows nothing of text.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from askance.core.errors import ModelSpecError
from askance.models.hf.attention import ATTENTION_NAME, capturing

_PREFILL_TOKENS = 512
"""A prompt is fed in pieces of this size, so that a long one can be abandoned half-way."""


@dataclass(slots=True)
class Context:
    """Everything fed so far: the cache (None before the first token) and the ids in it."""

    cache: Any = None
    ids: list[int] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        return len(self.ids)

    def fork(self) -> "Context":
        """A copy that can go on by itself."""
        return Context(copy.deepcopy(self.cache), list(self.ids))

    def shortened(self, num_tokens: int) -> "Context":
        """This context cut back to its first tokens; an empty one where its cache can't be cut."""
        # Layers of other kinds (sliding windows, states) have forgotten what a shorter context would need.
        if num_tokens == 0 or any(type(layer) is not DynamicLayer for layer in self.cache.layers):
            return Context()
        if num_tokens < self.num_tokens:  # in some versions, cutting nothing off empties the cache
            self.cache.crop(num_tokens - self.num_tokens)
            del self.ids[num_tokens:]
        return self


class Network:
    """A causal language model of transformers, in evaluation mode."""

    def __init__(self, module: Any, name: str) -> None:
        self._module = module
        self.device: torch.device = module.device
        self._keeps_logits = "logits_to_keep" in inspect.signature(module.forward).parameters
        self._latest: Context | None = None
        self.attention_layer = self._probe(name)

    def feed(self, context: Context, ids: Sequence[int], *, keep_logits: int = 1) -> Tensor:
        """Append `ids` to `context`. Logits after the last of them, shape [keep_logits, vocabulary]."""
        options = {"logits_to_keep": keep_logits} if self._keeps_logits else {}
        tensor = torch.tensor([list(ids)], device=self.device)
        self._latest = None  # a pass that breaks leaves half a cache
        output = self._module(input_ids=tensor, past_key_values=context.cache, use_cache=True, **options)
        context.cache = output.past_key_values
        context.ids += ids
        self._latest = context
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

    def prefill(self, ids: Sequence[int], check: Callable[[], None]) -> tuple[Context, Tensor, int]:
        """Feed a whole prompt, going on from what it shares with the context fed last.

        The examples of a prompt, and the text accepted so far, are thus computed once, not once a round.
        `check` runs between pieces of the prompt and may raise.

        Returns:
            The context, the logits behind it (shape [1, vocabulary]), and how many tokens were reused.
        """
        context = self._resumed(ids)
        reused_tokens = context.num_tokens
        for start in range(reused_tokens, len(ids), _PREFILL_TOKENS):
            check()
            logits = self.feed(context, ids[start : start + _PREFILL_TOKENS])
        return context, logits, reused_tokens

    def _resumed(self, ids: Sequence[int]) -> Context:
        latest, self._latest = self._latest, None
        if latest is None:
            return Context()
        pairs = zip(latest.ids, ids[:-1], strict=False)  # the last one is fed again, for its logits
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return latest.shortened(shared)

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
