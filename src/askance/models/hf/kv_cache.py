"""The KV cache of texts that are computed side by side: a pool with a place for each token.

A text need not lie in one piece, so texts that begin alike share the places of what they have in common, and
nothing is copied.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

_LEAST_GROWTH = 1024
"""Tokens."""


class Pool:
    """Keys and values by place, on a device.

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
