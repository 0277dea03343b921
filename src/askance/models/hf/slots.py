"""Where keys and values lie: a row of a slab for each text that runs, so that a pass reads all rows at once.

A slab has a place for every token that its rows may ever have. The rows in use are always the first ones:
when a sequence leaves, the last row moves into its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_LEAST_TOKENS = 128
_ROWS = 4


@dataclass(frozen=True, slots=True)
class KeyShape:
    """Of one layer: key-value heads, and the sizes of a key and a value."""

    heads: int
    key: int
    value: int

    @property
    def num_numbers(self) -> int:
        """Of one token."""
        return self.heads * (self.key + self.value)


@dataclass(slots=True, eq=False)
class Slot:
    """A row of a slab; it may move to another row between passes."""

    slab: "Slab"
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Keys and values of some tokens: by layer, shape [heads, tokens, size]."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


class Slab:
    """Keys and values of sequences with at most `num_tokens` tokens each.

    Attributes:
        keys, values: by layer, shape [rows, heads, num_tokens, size].
        slots: of the rows in use, in their order.
    """

    def __init__(
        self, shapes: Sequence[KeyShape], num_tokens: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.num_tokens, self._shapes = num_tokens, shapes
        self._device, self._dtype = device, dtype
        self.slots: list[Slot] = []
        self.keys, self.values = self._empty(_ROWS)

    def open(self) -> Slot:
        """A row that nobody uses."""
        if len(self.slots) == len(self.keys[0]):
            self._grow()
        self.slots.append(Slot(self, len(self.slots)))
        return self.slots[-1]

    def close(self, slot: Slot) -> None:
        """Give a row back."""
        last = self.slots.pop()
        if last is not slot:
            for layer in (*self.keys, *self.values):
                layer[slot.row].copy_(layer[last.row])
            self.slots[slot.row], last.row = last, slot.row

    def restore(self, slot: Slot, blocks: Sequence[tuple[Block, int]]) -> None:
        """Fill the beginning of a row."""
        for number, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            start = 0
            for block, count in blocks:
                keys[slot.row, :, start : start + count] = block.keys[number][:, :count]
                values[slot.row, :, start : start + count] = block.values[number][:, :count]
                start += count

    def save(self, slot: Slot, start: int, stop: int) -> Block:
        """A copy of a part of a row."""
        keys = tuple(layer[slot.row, :, start:stop].clone() for layer in self.keys)
        return Block(keys, tuple(layer[slot.row, :, start:stop].clone() for layer in self.values))

    def _grow(self) -> None:
        count = len(self.slots)
        keys, values = self._empty(2 * count)
        for old, new in zip((*self.keys, *self.values), (*keys, *values), strict=True):
            new[:count] = old
        self.keys, self.values = keys, values

    def _empty(self, num_rows: int) -> tuple[list[Tensor], list[Tensor]]:
        # Zeros: what lies behind a sequence's end is multiplied by weights of zero, which NaN would survive.
        keys, values = (
            [
                torch.zeros(
                    (num_rows, each.heads, self.num_tokens, size), device=self._device, dtype=self._dtype
                )
                for each, size in zip(self._shapes, sizes, strict=True)
            ]
            for sizes in ([each.key for each in self._shapes], [each.value for each in self._shapes])
        )
        return keys, values


class Slots:
    """Slabs for sequences of any length."""

    def __init__(self, shapes: Sequence[KeyShape], device: torch.device, dtype: torch.dtype) -> None:
        self._shapes, self._device, self._dtype = shapes, device, dtype
        self._slabs: dict[int, Slab] = {}

    @property
    def bytes_per_token(self) -> int:
        """Of keys and values of all layers."""
        return sum(each.num_numbers for each in self._shapes) * self._dtype.itemsize

    def open(self, num_tokens: int) -> Slot:
        """A row with room for so many tokens."""
        size = rounded(num_tokens)
        if size not in self._slabs:
            self._slabs[size] = Slab(self._shapes, size, self._device, self._dtype)
        return self._slabs[size].open()

    def close(self, slot: Slot) -> None:
        """Give a row back; a slab without any goes."""
        slot.slab.close(slot)
        if not slot.slab.slots:
            del self._slabs[slot.slab.num_tokens]


def rounded(num_tokens: int) -> int:
    """Up to the next power of two, or one and a half of one."""
    size = _LEAST_TOKENS
    while size < num_tokens:
        half = size + size // 2
        if num_tokens <= half:
            return half
        size *= 2
    return size
