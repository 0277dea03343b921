"""Passes over several texts at once.

Their tokens stand in one row, without padding: all that a layer does token by token is done for all of them
together. Only attention knows which token belongs to which text: new keys and values go into each text's
slot, and each token attends to its own slot alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from askance.models.hf.attention import Layer, reading_by
from askance.models.hf.signals import rows_of
from askance.models.hf.slots import Block, KeyShape, Slab, Slot, Slots
from askance.runtime.backend import Fed, Feed

_MOST_TOGETHER = 8
"""Tokens of a feed that are computed beside those of other feeds, in rows as long as the longest one."""
Weights = dict[tuple[int, int], Tensor]
"""Attention weights by the number of a feed in its pass and the offset of a token in it: [heads, tokens]."""


@dataclass(slots=True, eq=False)
class Pass:
    """The `Reader` of the attention of one pass.

    Attributes:
        groups: all tokens of the pass.
        watched_layer: whose weights are wanted.
        weights: those of the tokens that want them.
        windows: the sliding windows that the model told, by layer.
    """

    groups: Sequence["_Group"]
    watched_layer: int | None
    weights: Weights = field(default_factory=dict)
    windows: dict[int, int | None] = field(default_factory=dict)

    def attend(self, layer: Layer) -> Tensor:
        """See `Reader.attend`.

        Raises:
            NotImplementedError: attention of another kind. It is met when a model is tried at loading: one
                that wants such attention is computed text by text.
        """
        unknown = [name for name in ("softcap", "position_bias") if layer.options.get(name) is not None]
        if unknown or layer.index is None:
            raise NotImplementedError(f"attention with {', '.join(unknown) or 'no number of its layer'}")
        self.windows[layer.index] = layer.options.get("sliding_window")
        output = layer.query.new_empty((*_by_token(layer.query).shape[:2], layer.value.shape[-1]))
        for group in self.groups:
            group.attend(layer, output, self.weights if layer.index == self.watched_layer else None)
        return output[None]


class _Group:
    """Feeds whose attention is computed together: one alone, or the short ones of one slab.

    Several are computed in all rows of the slab. Shapes: `width` is the most tokens of a feed, and `keys` as
    many as the longest text has.

    Args:
        feeds: by their number in the pass, in the order of their rows.
        place: of their first token in the pass.
    """

    def __init__(self, feeds: Sequence[tuple[int, Feed[Slot]]], place: int, device: torch.device) -> None:
        self._feeds, (_, first) = feeds, feeds[0]
        self._slab, self._start, self._is_single = first.slot.slab, first.start, len(feeds) == 1
        self._width = max(len(feed.ids) for _, feed in feeds)
        self._num_keys = max(feed.start + len(feed.ids) for _, feed in feeds)
        row = first.slot.row
        self._all_rows = slice(row, row + 1) if self._is_single else slice(0, len(self._slab.slots))
        self._num_rows = self._all_rows.stop - self._all_rows.start
        # One entry for each token; its row, its distance from the row's first one, and its place in its text:
        tokens = [(feed, back) for _, feed in feeds for back in range(len(feed.ids))]
        self._places = slice(place, place + len(tokens))
        self._is_whole = len(tokens) == self._num_rows * self._width
        self._rows = _ids([feed.slot.row - self._all_rows.start for feed, _ in tokens], device)
        self._offsets = _ids([back for _, back in tokens], device)
        self._positions = _ids([feed.start + back for feed, back in tokens], device)
        self._wanting = [(number, feed) for number, feed in feeds if feed.wants_attention]
        self._masks: dict[tuple[int | None, int], Tensor | None] = {}

    def attend(self, layer: Layer, output: Tensor, weights: Weights | None) -> None:
        """Store the layer's keys and values, fill `output` for these tokens, and `weights` where wanted.

        Args:
            output: of all tokens of the pass: shape [tokens, heads, size of a value].
        """
        keys = self._stored(self._slab.keys[layer.index or 0], layer.key)
        values = self._stored(self._slab.values[layer.index or 0], layer.value)
        query = self._by_row(_by_token(layer.query)[self._places])
        mask = self._mask(layer.options.get("sliding_window"), query.shape[2] // keys.shape[1])
        if mask is None and self._width > 1:
            found = scaled_dot_product_attention(
                query.transpose(1, 2), keys, values, is_causal=True, scale=layer.scaling, enable_gqa=True
            ).transpose(1, 2)
        else:
            # Heads that share keys are computed as if they were several tokens, so that no key is repeated.
            grouped = _grouped(query, keys.shape[1])
            found = scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=layer.scaling)
            found = _ungrouped(found, self._width)
            if weights is not None and self._wanting:
                self._watch(grouped, keys, mask, layer.scaling, weights)
        output[self._places] = found.flatten(0, 1) if self._is_whole else found[self._rows, self._offsets]

    def _stored(self, stored: Tensor, new: Tensor) -> Tensor:
        """Keys or values of all rows, the new ones among them: shape [rows, key-value heads, keys, size]."""
        stored, new = stored[self._all_rows], _by_token(new)[self._places]
        if self._is_single:
            stored[0, :, self._start : self._num_keys] = new.transpose(0, 1)
        else:
            stored[self._rows, :, self._positions] = new
        return stored[:, :, : self._num_keys]

    def _by_row(self, query: Tensor) -> Tensor:
        """Shape [rows, width, heads, size]."""
        if self._is_whole:
            return query.reshape(self._num_rows, self._width, *query.shape[1:])
        by_row = query.new_zeros((self._num_rows, self._width, *query.shape[1:]))
        by_row[self._rows, self._offsets] = query
        return by_row

    def _watch(
        self, query: Tensor, keys: Tensor, mask: Tensor | None, scaling: float, weights: Weights
    ) -> None:
        """The weights for those that want them, which stock attention keeps to itself.

        They are in float32 also where the model is coarser: its rounded scores would move them by a half.
        """
        if len(self._wanting) < self._num_rows:
            rows = _ids([feed.slot.row - self._all_rows.start for _, feed in self._wanting], keys.device)
            query, keys, mask = query[rows], keys[rows], None if mask is None else mask[rows]
        scores = query.float() @ keys.float().transpose(-1, -2) * scaling
        found = torch.softmax(scores if mask is None else scores.masked_fill(~mask, -torch.inf), dim=-1)
        for by_token, (number, feed) in zip(_ungrouped(found, self._width), self._wanting, strict=True):
            for back in range(len(feed.ids)):
                weights[number, back] = by_token[back, :, : feed.start + back + 1]

    def _mask(self, window: int | None, num_sharing: int) -> Tensor | None:
        """The mask of `_new_mask`, made once a pass and not once a layer."""
        kind = window, num_sharing
        if kind not in self._masks:
            self._masks[kind] = self._new_mask(window, num_sharing)
        return self._masks[kind]

    def _new_mask(self, window: int | None, num_sharing: int) -> Tensor | None:
        """Which keys are seen: shape [rows, 1, num_sharing * width, keys], [rows, 1, 1, keys] where `width`
        is 1. It is None where a single text sees all that is before each of its tokens.
        """
        is_short = window is None or self._num_keys <= window
        is_plain = self._width == 1 or (self._start == 0 and not self._wanting)
        if self._is_single and is_short and is_plain:
            return None
        last = torch.zeros((self._num_rows, self._width), dtype=torch.long, device=self._rows.device)
        last[self._rows, self._offsets] = self._positions
        keys = torch.arange(self._num_keys, device=last.device)[None, None]
        sees = keys <= last[..., None]
        if window is not None:
            sees &= keys > last[..., None] - window
        return sees[:, None] if self._width == 1 else sees[:, None].repeat(1, 1, num_sharing, 1)


def _by_token(layer: Tensor) -> Tensor:
    """Move an array of shape [1, heads, tokens, size] into shape [tokens, heads, size]."""
    return layer[0].transpose(0, 1)


def _grouped(by_row: Tensor, num_key_heads: int) -> Tensor:
    """Move shape [rows, width, heads, size] into [rows, key heads, heads that share them * width, size]."""
    rows, width, _, size = by_row.shape
    return by_row.reshape(rows, width, num_key_heads, -1, size).permute(0, 2, 3, 1, 4).flatten(2, 3)


def _ungrouped(grouped: Tensor, width: int) -> Tensor:
    """Undo `_grouped`."""
    split = grouped.reshape(*grouped.shape[:2], -1, width, grouped.shape[-1])
    return split.permute(0, 3, 1, 2, 4).flatten(2, 3)


class Passes:
    """The `Backend` of a `Batch` over a module whose attention goes through a `Reader`.

    Args:
        module: of transformers, with logits for the tokens that its option `logits_to_keep` names.
        watched_layer: whose attention can be wanted.
        shapes: of keys and values, by layer.
    """

    can_restore = can_go_back = True
    can_share = False
    max_feeds = 1_000_000
    guessing_tokens = 16

    def __init__(self, module: Any, watched_layer: int | None, shapes: Sequence[KeyShape]) -> None:
        self._module, self._watched_layer, self._device = module, watched_layer, module.device
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

    def num_known(self, ids: Sequence[int]) -> int:
        return 0

    def open(self, num_tokens: int, ids: Sequence[int] = (), *, attention: bool = False) -> Slot:
        return self._slots.open(num_tokens)

    def num_held(self, slot: Slot) -> int:
        return 0

    def close(self, slot: Slot) -> None:
        slot.slab.close(slot)

    def give_back(self) -> None:
        self._slots.give_back()

    def restore(self, slot: Slot, blocks: Sequence[tuple[Block, int]]) -> None:
        slot.slab.restore(slot, blocks)

    def save(self, slot: Slot, start: int, stop: int) -> Block:
        return slot.slab.save(slot, start, stop)

    def forward(self, feeds: Sequence[Feed[Slot]]) -> list[Fed]:
        return self.run(feeds)[0]

    @torch.inference_mode()
    def run(self, feeds: Sequence[Feed[Slot]]) -> tuple[list[Fed], Pass]:
        """What each feed gives, and the pass itself."""
        groups = _in_groups(feeds)
        in_row = [feed for group in groups for _, feed in group]
        starts = [0, *accumulate(sum(len(feed.ids) for _, feed in group) for group in groups)]
        this = Pass(
            [_Group(group, start, self._device) for group, start in zip(groups, starts, strict=False)],
            self._watched_layer,
        )
        rows = rows_of(self._logits(in_row, this))
        ends = [0, *accumulate(feed.num_logits for feed in in_row)]
        numbers = [number for group in groups for number, _ in group]
        fed = {
            number: Fed(rows[start:end], _attention(this.weights, number, feed))
            for number, feed, start, end in zip(numbers, in_row, ends, ends[1:], strict=False)
        }
        return [fed[number] for number in range(len(feeds))], this

    def _logits(self, feeds: Sequence[Feed[Slot]], this: Pass) -> Tensor:
        """The logits after the last tokens of each feed: shape [logits of all feeds, vocabulary]."""
        ids = [id for feed in feeds for id in feed.ids]
        positions = [at for feed in feeds for at in range(feed.start, feed.start + len(feed.ids))]
        ends = accumulate(len(feed.ids) for feed in feeds)
        kept = [at for feed, end in zip(feeds, ends, strict=True) for at in range(end - feed.num_logits, end)]
        with reading_by(this):
            output = self._module(
                input_ids=_ids(ids, self._device)[None],
                position_ids=_ids(positions, self._device)[None],
                attention_mask=self._mask,
                use_cache=False,  # attention keeps keys and values
                logits_to_keep=_ids(kept, self._device),
            )
        logits: Tensor = output.logits[0]
        return logits


def _in_groups(feeds: Sequence[Feed[Slot]]) -> list[list[tuple[int, Feed[Slot]]]]:
    """Feeds with their numbers: long ones alone, short ones of a slab together in the order of its rows."""
    alone, together = [], dict[Slab, list[tuple[int, Feed[Slot]]]]()
    for number, feed in sorted(enumerate(feeds), key=lambda each: each[1].slot.row):
        if len(feed.ids) > _MOST_TOGETHER:
            alone.append([(number, feed)])
        else:
            together.setdefault(feed.slot.slab, []).append((number, feed))
    return [*alone, *together.values()]


def _attention(weights: Weights, number: int, feed: Feed[Slot]) -> list[Any]:
    wanted = range(len(feed.ids) - feed.num_logits, len(feed.ids)) if feed.wants_attention else ()
    return [weights[number, offset].cpu().numpy() for offset in wanted]


def _ids(numbers: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)
