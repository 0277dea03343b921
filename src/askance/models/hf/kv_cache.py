"""The KV cache of torch models: a pool of cells, which sequences share and release.

A backend keeps its pool within a memory budget. The prefix cache holds further references to the cells.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

_MIN_GROWTH_TOKENS = 1024


class KVPool:
    """The KV cache of all sequences of a model. Each token has a cell, which holds its keys and values.

    The cells of a sequence need not be contiguous, so sequences with a common prefix share its cells without
    copying.

    Attributes:
        layers: The keys and the values by layer index, each of shape [cells, key-value heads, head size].
        ref_counts: The number of references to each cell.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = device
        self.layers: dict[int, list[Tensor]] = {}
        self._capacity, self._free, self.ref_counts = 0, list[int](), Counter[int]()

    def allocate(self, num_tokens: int) -> "KVCells":
        """Allocate free cells, and let the pool grow if it has too few.

        The pool grows by at least an eighth, since growing copies it.
        """
        num_missing = num_tokens - len(self._free)
        if num_missing > 0:
            self._grow(self._capacity + max(num_missing, _MIN_GROWTH_TOKENS, self._capacity // 8))
        num_left = len(self._free) - num_tokens
        taken, self._free = self._free[num_left:], self._free[:num_left]
        return KVCells(self, taken)

    def _grow(self, capacity: int) -> None:
        for layer in self.layers.values():
            for index, store in enumerate(layer):
                num_new = max(0, capacity - len(store))  # a growth that failed may have enlarged some stores
                layer[index] = torch.cat([store, store.new_empty((num_new, *store.shape[1:]))])
        self._free += range(self._capacity, capacity)
        self._capacity = capacity

    def write(self, layer: int, cells: Tensor, key: Tensor, value: Tensor) -> None:
        """Store the keys and values of a layer, each of shape [tokens, key-value heads, head size].

        Args:
            cells: The indices of the tokens' cells, shape [tokens].
        """
        if layer not in self.layers:
            self.layers[layer] = [new.new_empty((self._capacity, *new.shape[1:])) for new in (key, value)]
        for store, new in zip(self.layers[layer], (key, value), strict=True):
            store[cells] = new

    def read(self, layer: int, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and the values of a layer.

        Both have the shape [sequences, tokens, key-value heads, head size].

        Args:
            cells: The indices of the cells, shape [sequences, tokens].
        """
        # On a CPU, `index_select` copies a cell at once; indexing with a tensor takes five times as long.
        keys, values = (
            store.index_select(0, cells.flatten()).view(*cells.shape, *store.shape[1:])
            for store in self.layers[layer]
        )
        return keys, values

    def release(self, cells: Sequence[int]) -> None:
        """Subtract one from the reference count of each cell, and free the cells without references."""
        self.ref_counts.subtract(cells)
        self._free += [cell for cell in cells if not self.ref_counts[cell]]

    def free_memory(self) -> None:
        """Free the memory of the pool if no cell is in use."""
        if len(self._free) == self._capacity:
            self.layers, self._capacity, self._free = {}, 0, []


class KVCells:
    """References to the cells of a sequence's tokens, in order.

    The references are released when this object is deleted.
    """

    def __init__(self, pool: KVPool, indices: Sequence[int]) -> None:
        self._pool, self.indices = pool, indices
        pool.ref_counts.update(indices)

    def __del__(self) -> None:
        self._pool.release(self.indices)

    @cached_property
    def tensor(self) -> Tensor:
        """The indices as a tensor of shape [tokens]."""
        return torch.tensor(self.indices, dtype=torch.long, device=self._pool.device)

    def prefix(self, count: int) -> "KVCells":
        """Return new references to the first `count` cells."""
        return KVCells(self._pool, self.indices[:count])

    def with_prefix(self, shared: "KVCells", count: int) -> "KVCells":
        """Return a copy of these references, in which shared cells replace the first `count` cells."""
        return KVCells(self._pool, [*shared.indices[:count], *self.indices[count:]])


@dataclass(slots=True, eq=False)
class TorchSlot:
    """The KV slot of a running sequence.

    Attributes:
        num_tokens: The greatest number of tokens that the sequence can have.
        num_cached_tokens: The number of the sequence's tokens that came from the prefix cache.
        cells: The sequence's cells in the pool, or None if the module uses `cache` instead.
        cache: The KV cache of transformers for this sequence alone.
    """

    num_tokens: int
    num_cached_tokens: int = 0
    cells: KVCells | None = None
    cache: Any = None
