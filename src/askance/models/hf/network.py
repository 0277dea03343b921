"""The torch module: what of it can be read, and what computes it for many texts at once."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from askance.core.errors import ModelSpecError
from askance.models.hf.attention import ATTENTION_NAME, Capture, reading_by
from askance.models.hf.passes import Passes
from askance.models.hf.signals import rows_of
from askance.models.hf.slots import KeyShape
from askance.runtime.backend import Fed, Feed


@dataclass(slots=True, eq=False)
class Context:
    """What was fed of one text.

    Attributes:
        num_tokens: that there may be.
    """

    num_tokens: int
    cache: Any = None


class Contexts:
    """The `Backend` of a `Batch` for models whose attention can't be taken over: one text at a time, with the
    cache of transformers. Nothing of a text stays after it.
    """

    can_restore = can_go_back = can_share = False
    max_feeds = 1
    guessing_tokens = 0

    def __init__(
        self, module: Any, watched_layer: int | None, keeps_logits: bool, bytes_per_token: int
    ) -> None:
        self._module, self._watched_layer, self._keeps_logits = module, watched_layer, keeps_logits
        self.bytes_per_token, self.num_reserved = bytes_per_token, 0

    def reserved_with(self, num_tokens: int) -> int:
        return self.num_reserved + num_tokens

    def num_known(self, ids: Sequence[int]) -> int:
        return 0

    def open(self, num_tokens: int, ids: Sequence[int] = (), *, attention: bool = False) -> Context:
        self.num_reserved += num_tokens
        return Context(num_tokens)

    def num_held(self, slot: Context) -> int:
        return 0

    def close(self, slot: Context) -> None:
        self.num_reserved -= slot.num_tokens
        slot.cache = None

    def give_back(self) -> None:
        """Nothing is kept."""

    def restore(self, slot: Context, blocks: Sequence[tuple[None, int]]) -> None:
        assert not blocks

    def save(self, slot: Context, start: int, stop: int) -> None:
        raise AssertionError("nothing is saved of what can't be restored (can_restore)")

    @torch.inference_mode()
    def forward(self, feeds: Sequence[Feed[Context]]) -> list[Fed]:
        return [self._fed(feed) for feed in feeds]

    def _fed(self, feed: Feed[Context]) -> Fed:
        options = {"logits_to_keep": max(1, feed.num_logits)} if self._keeps_logits else {}
        with reading_by(Capture(self._watched_layer if feed.wants_attention else None)) as capture:
            output = self._module(
                input_ids=torch.tensor([list(feed.ids)], device=self._module.device),
                past_key_values=feed.slot.cache,
                use_cache=True,
                **options,
            )
        feed.slot.cache = output.past_key_values
        logits = output.logits[0]
        rows = rows_of(logits[len(logits) - feed.num_logits :])
        if capture.weights is None:
            return Fed(rows)
        return Fed(rows, (_last_row(capture.weights, feed.start + len(feed.ids)),))


def _last_row(weights: Tensor, num_tokens: int) -> NDArray[np.float32]:
    """The last token's weights over all tokens: those that a sliding window has dropped are 0."""
    padded = torch.nn.functional.pad(weights[:, -1], (num_tokens - weights.shape[-1], 0))
    found: NDArray[np.float32] = padded.cpu().numpy()
    return found


_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}
"""How far logits of a pass may be from the module's own, as a share of the greatest: more than rounding."""
_COARSE_TOLERANCE = 0.1
_BY_LENGTH = ("dynamic", "longrope")
"""Kinds of rotary positions that transformers computes anew when a text grows beyond a length."""


class Network:
    """A causal language model of transformers, in evaluation mode.

    Attributes:
        attention_layer: the last layer whose attention can be read, or None.
        backend: what computes texts: several in one pass, where the module gives the same logits then.
    """

    def __init__(self, module: Any, name: str) -> None:
        self.module = module
        self.device: torch.device = module.device
        self._keeps_logits = "logits_to_keep" in inspect.signature(module.forward).parameters
        shapes = self._probe(name).shapes
        self.attention_layer = max(shapes, default=None)
        self.backend: Passes | Contexts = self._passes(shapes) or self._contexts()

    @torch.inference_mode()
    def attend(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The last layer's weights of one pass over `ids` alone: shape [heads, ids, ids]."""
        with reading_by(Capture(self.attention_layer)) as capture:
            self.module(input_ids=torch.tensor([list(ids)], device=self.device), use_cache=False)
        assert capture.weights is not None
        weights: NDArray[np.float32] = capture.weights.cpu().numpy()
        return weights

    @torch.inference_mode()
    def _probe(self, name: str) -> Capture:
        """Feed two tokens, and see which layers' attention goes by.

        Raises:
            ModelSpecError: a model without a key-value cache.
        """
        module = self.module
        can_capture = module._supports_sdpa or getattr(
            module.config.get_text_config(), "attn_logit_softcapping", None
        )
        if can_capture:
            module.set_attn_implementation(ATTENTION_NAME)
        with reading_by(Capture()) as capture:
            output = module(input_ids=torch.tensor([[0, 0]], device=self.device), use_cache=True)
        if output.past_key_values is None:
            raise ModelSpecError(
                f"model {name!r} keeps no key-value cache, which askance decodes with: "
                "use a transformer model, such as hf:Qwen/Qwen2.5-0.5B-Instruct, or this one as a GGUF "
                "file (gguf:FILE)."
            )
        return capture

    def _passes(self, shapes: Mapping[int, KeyShape]) -> Passes | None:
        """Passes over several texts; None where they would not give what the module gives for each."""
        windows = self._windows()
        can_pass = self._keeps_logits and not self._has_positions_by_length
        if not can_pass or windows is None or sorted(shapes) != [*range(len(windows))]:
            return None
        by_layer = [shapes[layer] for layer in range(len(windows))]
        try:
            passes = Passes(self.module, self.attention_layer, by_layer)
            return passes if self._is_exact(passes, windows) else None
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception:  # a module that does not expect such passes may raise anything
            return None

    @property
    def _has_positions_by_length(self) -> bool:
        """Whether positions are computed from the longest text of a pass: others would change by it."""
        kinds = [getattr(part, "rope_type", None) for part in self.module.modules()]
        named = [name for kind in kinds for name in (kind.values() if isinstance(kind, dict) else (kind,))]
        return any(name in _BY_LENGTH for name in named)

    def _contexts(self) -> Contexts:
        config = self.module.config.get_text_config()
        width, num_layers = getattr(config, "hidden_size", 1), getattr(config, "num_hidden_layers", 1)
        num_bytes = 2 * width * num_layers * self.module.dtype.itemsize
        return Contexts(self.module, self.attention_layer, self._keeps_logits, num_bytes)

    @torch.inference_mode()
    def _is_exact(self, passes: Passes, windows: Sequence[int | None]) -> bool:
        """Whether two texts, one of them in pieces, get the logits that each gets alone."""
        texts = [[*range(10)], [*range(9, 2, -1)]]
        slots = [passes.open(len(text)) for text in texts]
        try:
            for starts, stops in pairwise(((0, 0), (6, 5), (9, 6), (10, 7))):
                feeds = [
                    Feed(slot, start, text[start:stop], 1, False)
                    for slot, text, start, stop in zip(slots, texts, starts, stops, strict=True)
                ]
                found, this = passes.run(feeds)
        finally:
            for slot in slots:
                passes.close(slot)
            passes.give_back()  # what is made in inference mode can't be changed outside it
        alone = [
            self.module(input_ids=torch.tensor([text], device=self.device)).logits[0, -1] for text in texts
        ]
        # A window that reached attention only by the mask, which passes do without, would show late.
        return this.windows == dict(enumerate(windows)) and all(
            self._are_close(fed.logits[-1].logits, expected)
            for fed, expected in zip(found, alone, strict=True)
        )

    def _windows(self) -> list[int | None] | None:
        """How many tokens back each layer sees, None for all; None if the configuration does not say."""
        config = self.module.config.get_text_config()
        size = getattr(config, "sliding_window", None) or None
        is_used = size is not None and getattr(config, "use_sliding_window", True)
        kinds = getattr(config, "layer_types", None) or (
            ["sliding_attention" if is_used else "full_attention"] * getattr(config, "num_hidden_layers", 0)
        )
        by_kind = {"full_attention": None, "sliding_attention": size}
        return [by_kind[kind] for kind in kinds] if by_kind.keys() >= {*kinds} else None

    def _are_close(self, found: Tensor, expected: Tensor) -> bool:
        tolerance = _TOLERANCE.get(self.module.dtype, _COARSE_TOLERANCE)
        return bool((found - expected).abs().max() <= tolerance * expected.abs().max())
