"""What transformers calls for the attention of every layer, and the KV cache that it reads.

The output is that of the stock implementation. For the layer whose weights are wanted they are computed once
more, in float32, by the eager attention of the module itself: the option `output_attentions` of transformers
would make every layer slow and keep every layer's matrix.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask

from askance.core.errors import ModelSpecError
from askance.inference.backend import StepInput

ATTENTION_NAME = "askance"
States = tuple[Tensor, Tensor, Tensor]
"""Query, key and value: each of shape [rows, heads, tokens, size]."""
_LEAST_GROWTH = 1024
"""Tokens."""


class Pool:
    """The KV cache of texts that are computed side by side: keys and values by place, on a device.

    A text need not lie in one piece, so texts that begin alike share the places of what they have in common,
    and nothing is copied.

    Attributes:
        layers: keys and values by the index of the layer, each of shape [places, key-value heads, size].
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = device
        self.layers: dict[int, list[Tensor]] = {}
        self._capacity, self._free, self._uses = 0, list[int](), Counter[int]()

    def take(self, num_tokens: int) -> "Places":
        """Places that nobody uses. The pool grows by an eighth at least, since growing copies all."""
        missing = num_tokens - len(self._free)
        if missing > 0:
            self._grow(self._capacity + max(missing, _LEAST_GROWTH, self._capacity // 8))
        num_left = len(self._free) - num_tokens
        taken, self._free = self._free[num_left:], self._free[:num_left]
        return Places(self, taken)

    def _grow(self, capacity: int) -> None:
        for layer in self.layers.values():
            for number, store in enumerate(layer):
                added = max(0, capacity - len(store))  # one may have grown before the next had no memory
                layer[number] = torch.cat([store, store.new_empty((added, *store.shape[1:]))])
        self._free += range(self._capacity, capacity)
        self._capacity = capacity

    def write(self, layer: int, places: Tensor, key: Tensor, value: Tensor) -> None:
        """Store what a layer computed for some tokens, each of shape [tokens, key-value heads, size]."""
        if layer not in self.layers:
            self.layers[layer] = [each.new_empty((self._capacity, *each.shape[1:])) for each in (key, value)]
        for store, new in zip(self.layers[layer], (key, value), strict=True):
            store[places] = new

    def hold(self, places: Sequence[int]) -> None:
        """Count one more user of each place."""
        self._uses.update(places)

    def release(self, places: Sequence[int]) -> None:
        """Count one user less; a place without any is free."""
        self._uses.subtract(places)
        self._free += [place for place in places if not self._uses[place]]

    def give_back(self) -> None:
        """Let go of the memory, if nobody uses any of it."""
        if len(self._free) == self._capacity:
            self.layers, self._capacity, self._free = {}, 0, []


class Places:
    """The places of a text's tokens, in order. They are held as long as this object is there."""

    def __init__(self, pool: Pool, numbers: Sequence[int]) -> None:
        self._pool, self.numbers = pool, numbers
        pool.hold(numbers)

    def __del__(self) -> None:
        self._pool.release(self.numbers)

    @cached_property
    def tensor(self) -> Tensor:
        """The places as a tensor."""
        return torch.tensor(self.numbers, dtype=torch.long, device=self._pool.device)

    def part(self, start: int, stop: int) -> "Places":
        """Those of some of the tokens, held once more."""
        return Places(self._pool, self.numbers[start:stop])

    def behind(self, blocks: Sequence[tuple["Places", int]]) -> "Places":
        """As many, of which the first are those of so many tokens of each block."""
        shared = [place for block, count in blocks for place in block.numbers[:count]]
        return Places(self._pool, [*shared, *self.numbers[len(shared) :]])


@dataclass(slots=True, eq=False)
class TorchSlot:
    """A text that is being computed.

    Attributes:
        num_tokens: that there may be.
        num_held: how much of the text was there when it came.
        places: of its tokens in the pool; None where the module keeps its keys and values in `cache`.
    """

    num_tokens: int
    num_held: int = 0
    places: Places | None = None
    cache: Any = None


class Group:
    """Feeds of as many tokens each, whose attention is computed together.

    Args:
        first: the place of their first token among all of the pass; the others stand behind it.

    Attributes:
        weights: shape [feeds, heads, tokens of a feed, keys], if a feed wants them, after the pass.
    """

    def __init__(
        self, feeds: Sequence[StepInput[TorchSlot]], first: int, pool: Pool, device: torch.device
    ) -> None:
        self._feeds, self._pool, self._width = feeds, pool, len(feeds[0].ids)
        self._tokens = slice(first, first + len(feeds) * self._width)
        self.weights: Tensor | None = None
        starts = torch.tensor([feed.start for feed in feeds], device=device)
        self._positions = starts[:, None] + torch.arange(self._width, device=device)
        # A text that is shorter than the longest ends in its own last token again, which the mask hides.
        keys = torch.arange(max(feed.start for feed in feeds) + self._width, device=device)
        last = [feed.start + self._width - 1 for feed in feeds]
        places = [feed.slot.places.tensor for feed in feeds if feed.slot.places is not None]
        self._places = torch.stack([at[keys.clamp(max=end)] for at, end in zip(places, last, strict=True)])
        self._new_places = self._places.gather(1, self._positions).flatten()
        self._masks: dict[int | None, Tensor] = {}

    def attend(self, module: Any, states: States, options: Mapping[str, Any], watched: bool) -> Tensor:
        """The output for these tokens: shape [tokens, heads, size of a value].

        Args:
            states: of all tokens of the pass.
            watched: whether the weights of this layer are wanted.
        """
        query, key, value = (each[0].transpose(0, 1)[self._tokens] for each in states)
        self._pool.write(module.layer_idx, self._new_places, key, value)
        keys, values = (each[self._places].transpose(1, 2) for each in self._pool.layers[module.layer_idx])
        by_feed = query.reshape(-1, self._width, *query.shape[1:]).transpose(1, 2)
        mask = self._mask(options.get("sliding_window"), query.dtype)
        wanted = watched and any(feed.wants_attention for feed in self._feeds)
        output, weights = computed(module, (by_feed, keys, values), mask, options, wanted)
        self.weights = weights if wanted else self.weights
        return output.flatten(0, 1)

    def _mask(self, window: int | None, dtype: torch.dtype) -> Tensor:
        """What is added to scores, shape [feeds, 1, tokens of a feed, keys]; made once for all layers."""
        if window not in self._masks:
            keys, last = torch.arange(self._places.shape[1], device=self._places.device), self._positions
            hidden = keys > last[..., None]
            if window is not None:
                hidden |= keys <= last[..., None] - window
            mask = torch.zeros_like(hidden, dtype=dtype).masked_fill(hidden, torch.finfo(dtype).min)
            self._masks[window] = mask[:, None]
        return self._masks[window]

    def attention(self) -> Iterator[Sequence[NDArray[Any]]]:
        """For each feed, the weights of the tokens after which logits are wanted, over all up to each."""
        for row, feed in enumerate(self._feeds):
            if self.weights is None or not feed.wants_attention:
                yield ()
                continue
            found = self.weights[row].cpu().numpy()
            wanted = range(self._width - feed.num_logits, self._width)
            yield [found[:, back, : feed.start + back + 1] for back in wanted]


@dataclass(slots=True, eq=False)
class Pass:
    """One pass of a module, and what it leaves behind.

    Attributes:
        watched_layer: whose weights are wanted.
        groups: of texts that stand in one row; none where the module computes one text with its own cache.
        windows: the sliding windows that layers told, None for none, by the index of the layer.
        weights: of one text: shape [heads, queries, keys].
    """

    watched_layer: int | None = None
    groups: Sequence[Group] = ()
    windows: dict[int | None, int | None] = field(default_factory=dict)
    weights: Tensor | None = None


_active: ContextVar[Pass] = ContextVar("active_pass")


@contextmanager
def passing(this: Pass) -> Iterator[Pass]:
    """Forward passes of this thread inside the block are `this` one."""
    token = _active.set(this)
    try:
        yield this
    finally:
        _active.reset(token)


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, **options: Any
) -> tuple[Tensor, None]:
    """Transformers calls this for every layer: returns the output, shape [1, queries, heads, size].

    Raises:
        ModelSpecError: attention sinks, whose weights do not sum to 1, beside stock attention.
    """
    if options.get("s_aux") is not None:
        raise ModelSpecError(
            "this model's attention has sinks, with which its weights can't be read: name another model."
        )
    this = _active.get(None) or Pass()
    layer = getattr(module, "layer_idx", None)
    this.windows[layer] = options.get("sliding_window")
    watched = layer is not None and layer == this.watched_layer
    states = query, key, value
    if this.groups:
        parts = [group.attend(module, states, options, watched) for group in this.groups]
        return torch.cat(parts)[None], None
    output, weights = computed(module, states, attention_mask, options, watched)
    if weights is not None:
        this.weights = weights[0]
    return output, None


def computed(
    module: nn.Module, states: States, mask: Tensor, options: Mapping[str, Any], watched: bool
) -> tuple[Tensor, Tensor | None]:
    """The output, shape [rows, queries, heads, size], and the weights, [rows, heads, queries, keys].

    Weights are in float32 also where the model is coarser: its rounded scores would move them by a half.
    """
    eager = sys.modules[type(module).__module__].eager_attention_forward
    # Stock attention knows no soft cap on the scores.
    implementation = sdpa_attention_forward if options.get("softcap") is None else eager
    output, _ = implementation(module, *states, mask, **options)
    if not watched:
        return output, None
    return output, eager(module, *(each.float() for each in (*states, mask)), **options)[1]


AttentionInterface.register(ATTENTION_NAME, attend)
AttentionMaskInterface.register(ATTENTION_NAME, eager_mask)
