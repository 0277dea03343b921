"""Attention of one pass: each token of the row attends to the keys and values of its own text alone."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from askance.models.hf.slots import Slab, Slot
from askance.runtime.backend import Feed

MOST_TOGETHER = 8
"""Tokens of a feed that are computed beside those of other feeds, in rows as long as the longest one."""
Weights = dict[tuple[int, int], Tensor]
"""By the number of a feed in its pass, and the offset of a token in the feed: shape [heads, tokens]."""


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """What attention gets in one layer.

    Attributes:
        query: shape [tokens, heads, size]; key, value: [tokens, key-value heads, size].
        window: how many tokens back a token sees, itself included; None for all.
    """

    index: int
    query: Tensor
    key: Tensor
    value: Tensor
    scaling: float
    window: int | None


class Part(ABC):
    """Some tokens of a pass, whose attention is computed together."""

    def __init__(self) -> None:
        self._masks: dict[int | None, Tensor | None] = {}

    @abstractmethod
    def attend(self, layer: Layer, output: Tensor, weights: Weights | None) -> None:
        """Store the layer's keys and values, fill `output` for these tokens, and `weights` where wanted.

        Args:
            output: of all tokens of the pass: shape [tokens, heads, size of a value].
        """

    def mask(self, window: int | None) -> Tensor | None:
        """Made once a pass, for all layers."""
        if window not in self._masks:
            self._masks[window] = self._new_mask(window)
        return self._masks[window]

    @abstractmethod
    def _new_mask(self, window: int | None) -> Tensor | None:
        """Which keys are seen; None where that needs no mask."""


class Reading(Part):
    """Several tokens of one text, which see each other."""

    def __init__(self, feed: Feed[Slot], place: int, device: torch.device) -> None:
        super().__init__()
        self._feed, self._place = feed, slice(place, place + len(feed.ids))
        self._stop, self._device = feed.start + len(feed.ids), device

    def attend(self, layer: Layer, output: Tensor, weights: Weights | None) -> None:
        slab, row, start = self._feed.slot.slab, self._feed.slot.row, self._feed.start
        keys, values = slab.keys[layer.index][row], slab.values[layer.index][row]
        keys[:, start : self._stop] = layer.key[self._place].transpose(0, 1)
        values[:, start : self._stop] = layer.value[self._place].transpose(0, 1)
        mask = self.mask(layer.window)
        found = scaled_dot_product_attention(
            layer.query[self._place].transpose(0, 1)[None],
            keys[None, :, : self._stop],
            values[None, :, : self._stop],
            attn_mask=mask,
            is_causal=mask is None,
            scale=layer.scaling,
            enable_gqa=True,
        )
        output[self._place] = found[0].transpose(0, 1)

    def _new_mask(self, window: int | None) -> Tensor | None:
        """Which keys each token sees, shape [tokens, keys]; None where those before it and itself are all."""
        start = self._feed.start
        if start == 0 and (window is None or self._stop <= window):
            return None
        tokens = torch.arange(start, self._stop, device=self._device)[:, None]
        keys = torch.arange(self._stop, device=self._device)[None]
        sees = keys <= tokens
        return sees if window is None else sees & (keys > tokens - window)


class Writing(Part):
    """The next few tokens of several texts in one slab, which see what is before them.

    Heads that share keys are computed as if they were several tokens, which is what stock attention is quick
    at. Shapes: `width` is the most tokens of a feed.

    Args:
        feeds: by their number in the pass, with the places of their first tokens.
    """

    def __init__(self, feeds: Sequence[tuple[int, int, Feed[Slot]]], device: torch.device) -> None:
        super().__init__()
        in_order = sorted(feeds, key=lambda each: each[2].slot.row)
        self._slab: Slab = in_order[0][2].slot.slab
        self._first_row, self._first = in_order[0][2].slot.row, in_order[0][2].start
        self._wanting = [(number, feed) for number, _, feed in in_order if feed.wants_attention]
        self._num_rows, self._width = len(self._slab.slots), max(len(feed.ids) for _, _, feed in in_order)
        self._num_keys = max(feed.start + len(feed.ids) for _, _, feed in in_order)
        self._is_single = len(in_order) == 1
        # One entry for each token: where it is in the pass, in which row, how far behind the row's first one.
        tokens = [(place, feed, back) for _, place, feed in in_order for back in range(len(feed.ids))]
        places = [place + back for place, _, back in tokens]
        is_one_piece = places == [*range(places[0], places[0] + len(places))]
        self._places = slice(places[0], places[-1] + 1) if is_one_piece else _ids(places, device)
        self._is_whole = len(places) == self._num_rows * self._width
        self._rows = _ids([feed.slot.row for _, feed, _ in tokens], device)
        self._offsets = _ids([back for _, _, back in tokens], device)
        self._positions = _ids([feed.start + back for _, feed, back in tokens], device)
        self._masks_of_heads: dict[tuple[int | None, int], Tensor] = {}
        self._is_even = self._is_whole and len({feed.start for _, _, feed in in_order}) == 1

    def attend(self, layer: Layer, output: Tensor, weights: Weights | None) -> None:
        keys, values = self._stored(layer)
        query = self._grouped(self._by_row(layer.query[self._places]), keys.shape[1])
        mask = self._mask_of_heads(layer.window, query.shape[2] // self._width)
        found = scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=layer.scaling)
        if weights is not None and self._wanting:
            self._watch(query, keys, mask, layer.scaling, weights)
        by_row = self._ungrouped(found).flatten(2, 3)
        output[self._places] = by_row.flatten(0, 1) if self._is_whole else by_row[self._rows, self._offsets]

    def _stored(self, layer: Layer) -> tuple[Tensor, Tensor]:
        """Keys and values of all rows, the new ones among them."""
        keys, values = self._slab.keys[layer.index], self._slab.values[layer.index]
        if self._is_single:
            new = slice(self._first, self._first + self._width)
            keys[self._first_row, :, new] = layer.key[self._places].transpose(0, 1)
            values[self._first_row, :, new] = layer.value[self._places].transpose(0, 1)
        else:
            keys[self._rows, :, self._positions] = layer.key[self._places]
            values[self._rows, :, self._positions] = layer.value[self._places]
        return keys[: self._num_rows, :, : self._num_keys], values[: self._num_rows, :, : self._num_keys]

    def _by_row(self, query: Tensor) -> Tensor:
        """Shape [rows, width, heads, size]."""
        if self._is_whole:
            return query.reshape(self._num_rows, self._width, *query.shape[1:])
        by_row = query.new_zeros((self._num_rows, self._width, *query.shape[1:]))
        by_row[self._rows, self._offsets] = query
        return by_row

    def _grouped(self, by_row: Tensor, num_key_heads: int) -> Tensor:
        """Shape [rows, key heads, heads that share them * width, size]."""
        rows, width, _, size = by_row.shape
        split = by_row.reshape(rows, width, num_key_heads, -1, size)
        return split.permute(0, 2, 3, 1, 4).flatten(2, 3)

    def _ungrouped(self, grouped: Tensor) -> Tensor:
        """Shape [rows, width, key heads, heads that share them, size]."""
        split = grouped.reshape(*grouped.shape[:2], -1, self._width, grouped.shape[-1])
        return split.permute(0, 3, 1, 2, 4)

    def _watch(
        self, query: Tensor, keys: Tensor, mask: Tensor | None, scaling: float, weights: Weights
    ) -> None:
        """The weights for those that want them, which stock attention keeps to itself.

        In float32 also where the model is coarser: its rounded scores would move them by a half.
        """
        if len(self._wanting) < self._num_rows:
            rows = _ids([feed.slot.row for _, feed in self._wanting], keys.device)
            query, keys, mask = query[rows], keys[rows], None if mask is None else mask[rows]
        scores = query.float() @ keys.float().transpose(-1, -2) * scaling
        found = torch.softmax(scores if mask is None else scores.masked_fill(~mask, -torch.inf), dim=-1)
        for by_token, (number, feed) in zip(self._ungrouped(found).flatten(2, 3), self._wanting, strict=True):
            for back in range(len(feed.ids)):
                weights[number, back] = by_token[back, :, : feed.start + back + 1]

    def _mask_of_heads(self, window: int | None, num_sharing: int) -> Tensor | None:
        """The mask, once for each head that shares keys; like it, made once a pass."""
        mask = self.mask(window)
        if mask is None or self._width == 1:
            return mask
        kind = window, num_sharing
        if kind not in self._masks_of_heads:
            self._masks_of_heads[kind] = mask.repeat(1, 1, num_sharing, 1)
        return self._masks_of_heads[kind]

    def _new_mask(self, window: int | None) -> Tensor | None:
        """Which keys are seen, shape [rows, 1, width, keys]; None where all are."""
        is_short = window is None or self._num_keys <= window
        if is_short and self._is_even and self._width == 1:
            return None
        last = torch.zeros((self._num_rows, self._width), dtype=torch.long, device=self._rows.device)
        last[self._rows, self._offsets] = self._positions
        keys = torch.arange(self._num_keys, device=last.device)[None, None]
        sees = keys <= last[..., None]
        if window is not None:
            sees &= keys > last[..., None] - window
        return sees[:, None]


def _ids(numbers: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)
