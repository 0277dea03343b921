"""Where keys and values lie: a row of a slab for each text that runs, so that a pass reads all rows at once.

A slab has a place for every token that its rows may ever have. The rows in use are always the first ones:
when a sequence leaves, the last row moves into its place. Where no token is, there are finite numbers: a pass
reads them, with weights of zero, which infinity and NaN would survive.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_LEAST_TOKENS = 128


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
        num_rows: all there are.
    """

    def __init__(
        self, shapes: Sequence[KeyShape], num_tokens: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.num_tokens, self._shapes = num_tokens, shapes
        self._device, self._dtype = device, dtype
        self.slots: list[Slot] = []
        self.num_rows = 1
        self.keys, self.values = self._empty()

    def open(self) -> Slot:
        """A row that nobody uses."""
        if len(self.slots) == self.num_rows:
            self._grow()
        self.slots.append(Slot(self, len(self.slots)))
        return self.slots[-1]

    def close(self, slot: Slot) -> None:
        """Give a row back, and leave nothing in it: a sequence that overflowed would spoil the next one."""
        last = self.slots.pop()
        for layer in (*self.keys, *self.values):
            if last is not slot:
                layer[slot.row].copy_(layer[last.row])
            layer[last.row].zero_()
        if last is not slot:
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

    @property
    def num_new_rows(self) -> int:
        """How many more rows there would be with one more slot: some at a time, since growing copies all."""
        return 0 if len(self.slots) < self.num_rows else (self.num_rows + 1) // 2

    def _grow(self) -> None:
        num_rows = self.num_rows + self.num_new_rows
        for layers in (self.keys, self.values):
            for number, layer in enumerate(layers):  # one after the other: the rest is not held twice
                if len(layer) < num_rows:  # unless it grew before, and the next had no memory
                    layers[number] = layer.new_zeros((num_rows, *layer.shape[1:]))
                    layers[number][: len(layer)] = layer
        self.num_rows = num_rows

    def _empty(self) -> tuple[list[Tensor], list[Tensor]]:
        def zeros(heads: int, size: int) -> Tensor:
            shape = (self.num_rows, heads, self.num_tokens, size)
            return torch.zeros(shape, device=self._device, dtype=self._dtype)

        keys = [zeros(each.heads, each.key) for each in self._shapes]
        return keys, [zeros(each.heads, each.value) for each in self._shapes]


class Slots:
    """Slabs for sequences of any length."""

    def __init__(self, shapes: Sequence[KeyShape], device: torch.device, dtype: torch.dtype) -> None:
        self._shapes, self._device, self._dtype = shapes, device, dtype
        self._slabs: dict[int, Slab] = {}

    @property
    def bytes_per_token(self) -> int:
        """Of keys and values of all layers."""
        return sum(each.num_numbers for each in self._shapes) * self._dtype.itemsize

    @property
    def num_reserved(self) -> int:
        """Tokens that all rows have room for."""
        return sum(slab.num_rows * slab.num_tokens for slab in self._slabs.values())

    def reserved_with(self, num_tokens: int) -> int:
        """What `num_reserved` would be with one more slot."""
        slab = self._slabs.get(rounded(num_tokens))
        return self.num_reserved + rounded(num_tokens) * (slab.num_new_rows if slab else 1)

    def open(self, num_tokens: int) -> Slot:
        """A row with room for so many tokens."""
        size = rounded(num_tokens)
        if size not in self._slabs:
            self._slabs[size] = Slab(self._shapes, size, self._device, self._dtype)
        return self._slabs[size].open()

    def close(self, slot: Slot) -> None:
        """Give a row back; a slab without any goes."""
        if slot.slab.slots == [slot]:
            del self._slabs[slot.slab.num_tokens]
        else:
            slot.slab.close(slot)


def rounded(num_tokens: int) -> int:
    """Up to the next power of two, or one and a half of one."""
    size = _LEAST_TOKENS
    while size < num_tokens:
        half = size + size // 2
        if num_tokens <= half:
            return half
        size *= 2
    return size
