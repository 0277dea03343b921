"""Attention of one pass: each token of the row attends to the keys and values of its own text alone."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from askance.models.hf.slots import Slab, Slot
from askance.runtime.backend import Feed


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
    def attend(self, layer: Layer, output: Tensor, weights: dict[int, Tensor] | None) -> None:
        """Store the layer's keys and values, fill `output` for these tokens, and `weights` by feed.

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

    def attend(self, layer: Layer, output: Tensor, weights: dict[int, Tensor] | None) -> None:
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
    """The next tokens of several texts in one slab, one of each.

    Heads that share keys are computed as if they were several tokens, which is what stock attention is quick
    at.

    Args:
        feeds: by their number in the pass, with their places.
    """

    def __init__(self, feeds: Sequence[tuple[int, int, Feed[Slot]]], device: torch.device) -> None:
        super().__init__()
        in_order = sorted(feeds, key=lambda each: each[2].slot.row)
        self._slab: Slab = in_order[0][2].slot.slab
        self._starts = [feed.start for _, _, feed in in_order]
        self._rows = [feed.slot.row for _, _, feed in in_order]
        self._wanting = [
            (number, feed.slot.row, feed.start) for number, _, feed in in_order if feed.wants_attention
        ]
        self._num_rows, self._num_keys = len(self._slab.slots), max(self._starts) + 1
        places = [place for _, place, _ in in_order]
        is_one_piece = places == [*range(places[0], places[0] + len(places))]
        self._places = slice(places[0], places[-1] + 1) if is_one_piece else _ids(places, device)
        self._is_whole = len(places) == self._num_rows
        self._row_ids, self._start_ids = _ids(self._rows, device), _ids(self._starts, device)

    def attend(self, layer: Layer, output: Tensor, weights: dict[int, Tensor] | None) -> None:
        keys, values = self._stored(layer)
        query = layer.query[self._places]
        grouped = self._by_row(query).reshape(self._num_rows, keys.shape[1], -1, query.shape[-1])
        mask = self.mask(layer.window)
        found = scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=layer.scaling)
        if weights is not None and self._wanting:
            self._watch(grouped, keys, mask, layer.scaling, weights)
        by_row = found.reshape(self._num_rows, *output.shape[1:])
        output[self._places] = by_row if self._is_whole else by_row[self._row_ids]

    def _stored(self, layer: Layer) -> tuple[Tensor, Tensor]:
        """Keys and values of all rows, the new ones among them."""
        keys, values = self._slab.keys[layer.index], self._slab.values[layer.index]
        if len(self._rows) == 1:
            keys[self._rows[0], :, self._starts[0]] = layer.key[self._places][0]
            values[self._rows[0], :, self._starts[0]] = layer.value[self._places][0]
        else:
            keys[self._row_ids, :, self._start_ids] = layer.key[self._places]
            values[self._row_ids, :, self._start_ids] = layer.value[self._places]
        return keys[: self._num_rows, :, : self._num_keys], values[: self._num_rows, :, : self._num_keys]

    def _by_row(self, query: Tensor) -> Tensor:
        if self._is_whole:
            return query
        by_row = query.new_zeros((self._num_rows, *query.shape[1:]))
        by_row[self._row_ids] = query
        return by_row

    def _watch(
        self, query: Tensor, keys: Tensor, mask: Tensor | None, scaling: float, weights: dict[int, Tensor]
    ) -> None:
        """The weights for those that want them, which stock attention keeps to itself.

        In float32 also where the model is coarser: its rounded scores would move them by a half.
        """
        if len(self._wanting) < self._num_rows:
            rows = _ids([row for _, row, _ in self._wanting], keys.device)
            query, keys, mask = query[rows], keys[rows], None if mask is None else mask[rows]
        scores = query.float() @ keys.float().transpose(-1, -2) * scaling
        found = torch.softmax(scores if mask is None else scores.masked_fill(~mask, -torch.inf), dim=-1)
        for by_head, (number, _, start) in zip(found.flatten(1, 2), self._wanting, strict=True):
            weights[number] = by_head[:, : start + 1]

    def _new_mask(self, window: int | None) -> Tensor | None:
        """Which keys are seen, shape [rows, 1, 1, keys]; None where all are."""
        is_short = window is None or self._num_keys <= window
        if is_short and self._is_whole and min(self._starts) == max(self._starts):
            return None
        last = torch.zeros(self._num_rows, dtype=torch.long, device=self._row_ids.device)
        last[self._row_ids] = self._start_ids
        keys = torch.arange(self._num_keys, device=last.device)[None]
        sees = keys <= last[:, None]
        if window is not None:
            sees &= keys > last[:, None] - window
        return sees[:, None, None]


def _ids(numbers: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)
