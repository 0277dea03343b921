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
    """The key-value heads of one layer, and the sizes of a key and of a value."""

    heads: int
    key: int
    value: int

    @property
    def num_numbers(self) -> int:
        """The numbers that one token has in the layer."""
        return self.heads * (self.key + self.value)


@dataclass(slots=True, eq=False)
class Slot:
    """A row of a slab; it may move to another row between passes."""

    slab: "Slab"
    row: int


Block = tuple[Tensor, ...]
"""Keys and values of some tokens: for each of a slab's tensors, shape [layers, heads, tokens, size]."""


class Slab:
    """Keys and values of sequences with at most `num_tokens` tokens each.

    Layers of one shape lie in one tensor, so that what belongs to a sequence is moved in few calls.

    Attributes:
        keys, values: by layer, shape [rows, heads, num_tokens, size].
        slots: of the rows in use, in their order.
        num_rows: all there are.
    """

    def __init__(
        self, shapes: Sequence[KeyShape], num_tokens: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.num_tokens, self.num_rows = num_tokens, 1
        self.slots: list[Slot] = []
        self._shapes = shapes
        self._alike = [
            [index for index, each in enumerate(shapes) if each == shape] for shape in dict.fromkeys(shapes)
        ]
        self._stores = [
            torch.zeros((len(alike), 1, shape.heads, num_tokens, size), device=device, dtype=dtype)
            for alike, shape in zip(self._alike, dict.fromkeys(shapes), strict=True)
            for size in (shape.key, shape.value)
        ]
        self._look()

    def open(self) -> Slot:
        """A row that nobody uses."""
        if len(self.slots) == self.num_rows:
            self._grow()
        self.slots.append(Slot(self, len(self.slots)))
        return self.slots[-1]

    def close(self, slot: Slot) -> None:
        """Give a row back, and leave nothing in it: a sequence that overflowed would spoil the next one."""
        last = self.slots.pop()
        for store in self._stores:
            if last is not slot:
                store[:, slot.row] = store[:, last.row]
            store[:, last.row].zero_()
        if last is not slot:
            self.slots[slot.row], last.row = last, slot.row

    def restore(self, slot: Slot, blocks: Sequence[tuple[Block, int]]) -> None:
        """Fill the beginning of a row."""
        for number, store in enumerate(self._stores):
            start = 0
            for block, count in blocks:
                store[:, slot.row, :, start : start + count] = block[number][:, :, :count]
                start += count

    def save(self, slot: Slot, start: int, stop: int) -> Block:
        """A copy of a part of a row."""
        return tuple(store[:, slot.row, :, start:stop].clone() for store in self._stores)

    @property
    def num_new_rows(self) -> int:
        """How many more rows there would be with one more slot: some at a time, since growing copies all."""
        return 0 if len(self.slots) < self.num_rows else (self.num_rows + 1) // 2

    def _grow(self) -> None:
        num_rows = self.num_rows + self.num_new_rows
        for number, store in enumerate(self._stores):  # one after the other: the rest is not held twice
            if store.shape[1] < num_rows:  # unless it grew before, and the next had no memory
                self._stores[number] = store.new_zeros((len(store), num_rows, *store.shape[2:]))
                self._stores[number][:, : store.shape[1]] = store
                self._look()
        self.num_rows = num_rows

    def _look(self) -> None:
        """Know each layer's part of the tensors."""
        of_layer = {
            index: (keys[at], values[at])
            for alike, keys, values in zip(self._alike, self._stores[::2], self._stores[1::2], strict=True)
            for at, index in enumerate(alike)
        }
        self.keys = [of_layer[index][0] for index in range(len(self._shapes))]
        self.values = [of_layer[index][1] for index in range(len(self._shapes))]


class Slots:
    """Slabs for sequences of any length. One that nobody uses is kept, since making rows takes time."""

    def __init__(self, shapes: Sequence[KeyShape], device: torch.device, dtype: torch.dtype) -> None:
        self._shapes, self._device, self._dtype = shapes, device, dtype
        self._slabs: dict[int, Slab] = {}

    @property
    def bytes_per_token(self) -> int:
        """The bytes that keys and values of one token take in all layers."""
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

    def give_back(self) -> None:
        """Let go of slabs that nobody uses."""
        self._slabs = {size: slab for size, slab in self._slabs.items() if slab.slots}


def rounded(num_tokens: int) -> int:
    """Up to the next power of two, or one and a half of one."""
    size = _LEAST_TOKENS
    while size < num_tokens:
        half = size + size // 2
        if num_tokens <= half:
            return half
        size *= 2
    return size
