"""Passes of a transformers module over several texts at once.

Their tokens stand in one row, without padding: all that a layer does token by token is done for all of them
together. Only attention knows which token belongs to which text. Transformers calls us for it, once a layer:
there new keys and values go into each text's slot, and each token attends to its own slot alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.cache_utils import Cache

from askance.models.hf.signals import rows_of
from askance.models.hf.slots import Block, KeyShape, Slab, Slot, Slots
from askance.runtime.backend import Fed, Feed


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """What attention gets in one layer.

    Attributes:
        query: shape [tokens, heads, size]; key, value: [tokens, key-value heads, size].
        window: how many tokens back a token sees, itself included; None for all.
        output: to be filled, shape [tokens, heads, size of a value].
    """

    index: int
    query: Tensor
    key: Tensor
    value: Tensor
    scaling: float
    window: int | None
    output: Tensor


class Part:
    """Some tokens of a pass, whose attention is computed together."""

    def __init__(self) -> None:
        self._masks: dict[int | None, Tensor | None] = {}

    def attend(self, layer: Layer, weights: dict[int, Tensor] | None) -> None:
        """Store the layer's keys and values, fill its output for these tokens, and `weights` by feed."""
        raise NotImplementedError

    def mask(self, window: int | None) -> Tensor | None:
        """Made once a pass, for all layers."""
        if window not in self._masks:
            self._masks[window] = self._new_mask(window)
        return self._masks[window]

    def _new_mask(self, window: int | None) -> Tensor | None:
        raise NotImplementedError


class Reading(Part):
    """Several tokens of one text, which see each other."""

    def __init__(self, feed: Feed[Slot], place: int, device: torch.device) -> None:
        super().__init__()
        self._feed, self._place = feed, slice(place, place + len(feed.ids))
        self._stop, self._device = feed.start + len(feed.ids), device

    def attend(self, layer: Layer, weights: dict[int, Tensor] | None) -> None:
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
        layer.output[self._place] = found[0].transpose(0, 1)

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

    Args:
        feeds: by their number in the pass, with their places.
    """

    def __init__(self, feeds: Sequence[tuple[int, int, Feed[Slot]]], device: torch.device) -> None:
        super().__init__()
        self._slab: Slab = feeds[0][2].slot.slab
        self._starts = [feed.start for _, _, feed in feeds]
        self._rows = [feed.slot.row for _, _, feed in feeds]
        self._watched = [number if feed.wants_attention else None for number, _, feed in feeds]
        self._num_keys = max(self._starts) + 1
        self._places = torch.tensor([place for _, place, _ in feeds], device=device)
        self._row_ids = torch.tensor(self._rows, device=device)
        self._start_ids = torch.tensor(self._starts, device=device)

    def attend(self, layer: Layer, weights: dict[int, Tensor] | None) -> None:
        all_keys, all_values = self._slab.keys[layer.index], self._slab.values[layer.index]
        all_keys[self._row_ids, :, self._start_ids] = layer.key[self._places]
        all_values[self._row_ids, :, self._start_ids] = layer.value[self._places]
        num_rows, num_heads = len(self._slab.slots), layer.key.shape[1]
        keys = all_keys[:num_rows, :, : self._num_keys]
        values = all_values[:num_rows, :, : self._num_keys]
        query = layer.query.new_zeros((num_rows, *layer.query.shape[1:]))
        query[self._row_ids] = layer.query[self._places]
        grouped = query.view(num_rows, num_heads, -1, query.shape[-1])
        scores = (grouped @ keys.transpose(-1, -2)).float() * layer.scaling
        mask = self.mask(layer.window)
        found = torch.softmax(scores if mask is None else scores + mask, dim=-1)
        output = (found.to(values.dtype) @ values).view(num_rows, *layer.output.shape[1:])
        layer.output[self._places] = output[self._row_ids]
        if weights is not None:
            by_row = found.view(num_rows, layer.query.shape[1], -1)
            for number, row, start in zip(self._watched, self._rows, self._starts, strict=True):
                if number is not None:
                    weights[number] = by_row[row, :, : start + 1]

    def _new_mask(self, window: int | None) -> Tensor | None:
        """0 for keys that are seen, else -inf, shape [rows, 1, 1, keys]; None where all are seen."""
        last = torch.zeros(len(self._slab.slots), dtype=torch.long, device=self._row_ids.device)
        last[self._row_ids] = self._start_ids
        keys = torch.arange(self._num_keys, device=last.device)[None]
        hidden = keys > last[:, None]
        if window is not None:
            hidden |= keys <= last[:, None] - window
        if not hidden.any():
            return None
        return torch.zeros(hidden.shape, device=last.device).masked_fill(hidden, -torch.inf)[:, None, None]


@dataclass(slots=True, eq=False)
class Pass:
    """What attention has to know of a pass: its parts, and in which layer weights are wanted.

    Attributes:
        weights: of the last token of feeds, by their number: shape [heads, tokens].
        windows: the sliding windows that the model told, by layer.
    """

    parts: list[Part]
    watched_layer: int | None
    weights: dict[int, Tensor] = field(default_factory=dict)
    windows: dict[int, int | None] = field(default_factory=dict)

    def attend(
        self, index: int, query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any]
    ) -> Tensor:
        """Attention of one layer for all tokens: shape [1, tokens, heads, size].

        Shapes: query [1, heads, tokens, size]; key and value [1, key-value heads, tokens, size].
        """
        unknown = [name for name in ("softcap", "s_aux", "position_bias") if options.get(name) is not None]
        if unknown:
            raise NotImplementedError(f"attention with {', '.join(unknown)}")
        scaling = options.get("scaling")
        self.windows[index] = options.get("sliding_window")
        layer = Layer(
            index,
            query[0].transpose(0, 1),
            key[0].transpose(0, 1),
            value[0].transpose(0, 1),
            query.shape[-1] ** -0.5 if scaling is None else scaling,
            options.get("sliding_window"),
            query.new_empty((query.shape[2], query.shape[1], value.shape[-1])),
        )
        weights = self.weights if index == self.watched_layer else None
        for part in self.parts:
            part.attend(layer, weights)
        return layer.output[None]


active_pass: ContextVar[Pass | None] = ContextVar("active_pass", default=None)
"""The pass that runs in this thread."""


@contextmanager
def _running(this: Pass) -> Iterator[None]:
    token = active_pass.set(this)
    try:
        yield
    finally:
        active_pass.reset(token)


class _Through(Cache):  # type: ignore[misc]
    """Stands where transformers keeps keys and values: it keeps none, since attention does."""

    def __init__(self) -> None:
        super().__init__(layers=[])

    def update(self, key_states: Tensor, value_states: Tensor, *others: Any, **options: Any) -> Any:
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0


class Passes:
    """The `Backend` of a `Batch` over a module whose attention goes through `active_pass`."""

    can_restore = True
    max_feeds = 1_000_000

    def __init__(self, module: Any, watched_layer: int | None, shapes: Sequence[KeyShape]) -> None:
        self._module, self._watched_layer = module, watched_layer
        self._device: torch.device = module.device
        self._slots = Slots(shapes, module.device, module.dtype)
        # With a mask that is there already, transformers makes none; nobody looks at it.
        self._mask = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=module.device)

    @property
    def bytes_per_token(self) -> int:
        return self._slots.bytes_per_token

    @property
    def num_reserved(self) -> int:
        return self._slots.num_reserved

    def reserved_with(self, num_tokens: int) -> int:
        return self._slots.reserved_with(num_tokens)

    def open(self, num_tokens: int) -> Slot:
        return self._slots.open(num_tokens)

    def close(self, slot: Slot) -> None:
        self._slots.close(slot)

    def restore(self, slot: Slot, blocks: Sequence[tuple[Block, int]]) -> None:
        slot.slab.restore(slot, blocks)

    def save(self, slot: Slot, start: int, stop: int) -> Block:
        return slot.slab.save(slot, start, stop)

    def forward(self, feeds: Sequence[Feed[Slot]]) -> list[Fed]:
        return self.run(feeds)[0]

    @torch.inference_mode()
    def run(self, feeds: Sequence[Feed[Slot]]) -> tuple[list[Fed], Pass]:
        """What each feed gives, and the pass itself."""
        ids = [id for feed in feeds for id in feed.ids]
        positions = [at for feed in feeds for at in range(feed.start, feed.start + len(feed.ids))]
        parts, kept = self._parts(feeds)
        this = Pass(parts, self._watched_layer)
        with _running(this):
            output = self._module(
                input_ids=torch.tensor([ids], device=self._device),
                position_ids=torch.tensor([positions], device=self._device),
                attention_mask=self._mask,
                past_key_values=_Through(),
                use_cache=True,
                logits_to_keep=torch.tensor(kept, dtype=torch.long, device=self._device),
            )
        rows = rows_of(output.logits[0])
        fed, first = [], 0
        for number, feed in enumerate(feeds):
            fed.append(Fed(rows[first : first + feed.num_logits], this.weights.get(number)))
            first += feed.num_logits
        return fed, this

    def _parts(self, feeds: Sequence[Feed[Slot]]) -> tuple[list[Part], list[int]]:
        """Parts for all feeds, and the places after which logits are wanted."""
        parts, kept, place = list[Part](), list[int](), 0
        single: dict[Slab, list[tuple[int, int, Feed[Slot]]]] = {}
        for number, feed in enumerate(feeds):
            stop = place + len(feed.ids)
            kept += range(stop - feed.num_logits, stop)
            if len(feed.ids) == 1:
                single.setdefault(feed.slot.slab, []).append((number, place, feed))
            else:
                parts.append(Reading(feed, place, self._device))
            place = stop
        parts += [Writing(together, self._device) for together in single.values()]
        return parts, kept
