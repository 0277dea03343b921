"""One text at a time, with the cache of transformers: for models whose attention we can't take over."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from askance.models.hf.attention import Capture, reading_by
from askance.models.hf.signals import rows_of
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
    """The `Backend` of a `Batch` over any causal model of transformers. Nothing of a text stays after it."""

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

    def open(self, num_tokens: int, ids: Sequence[int] = ()) -> Context:
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
