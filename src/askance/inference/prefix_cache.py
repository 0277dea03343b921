"""A prefix cache: token sequences with the keys and values that were computed for them.

A running sequence owns its keys and values. The cache holds copies or further references, so an entry can be
evicted at any time, even while a sequence uses the same keys and values.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Generic, TypeVar

from askance.core.types import TokenIds

B = TypeVar("B")
_CHUNK_TOKENS = 64


class PrefixCache(Generic[B]):
    """A cache that maps token sequences to blocks of keys and values, with LRU eviction.

    Attributes:
        num_tokens: The number of tokens in the cache.
        max_tokens: The greatest number of tokens that the cache may hold.
    """

    def __init__(self, max_tokens: int = 0) -> None:
        self.num_tokens, self.max_tokens = 0, max_tokens
        self._blocks = dict[TokenIds, B]()  # in the order of their last use
        self._sorted_ids = list[TokenIds]()

    def find(self, ids: Sequence[int]) -> tuple[B | None, int]:
        """Find the cached sequence that shares the longest prefix with `ids`.

        That sequence is always one of the two neighbours of `ids` among the sorted cached sequences.

        Returns:
            The block of the sequence and the number of shared tokens, or None and 0.
        """
        wanted = tuple(ids)
        index = bisect_left(self._sorted_ids, wanted)
        neighbours = self._sorted_ids[max(0, index - 1) : index + 1]
        count, nearest = max(((num_shared(cached, wanted), cached) for cached in neighbours), default=(0, ()))
        if not count:
            return None, 0
        block = self._blocks[nearest] = self._blocks.pop(nearest)
        return block, count

    def add(self, ids: TokenIds, block: B) -> None:
        """Cache a sequence, and evict the cached sequences that are prefixes of it.

        A sequence is not cached if it is longer than `max_tokens`, or itself a prefix of a cached sequence.
        """
        if not ids or len(ids) > self.max_tokens or self.find(ids)[1] == len(ids):
            return
        for prefix in [cached for cached in self._blocks if cached == ids[: len(cached)]]:
            self.drop(prefix)
        self._shrink(self.max_tokens - len(ids))
        self._blocks[ids] = block
        self.num_tokens += len(ids)
        insort(self._sorted_ids, ids)

    def drop(self, ids: TokenIds) -> None:
        """Evict one sequence if it is cached."""
        if ids in self._blocks:
            del self._blocks[ids], self._sorted_ids[bisect_left(self._sorted_ids, ids)]
            self.num_tokens -= len(ids)

    def limit(self, max_tokens: int) -> None:
        """Set `max_tokens`, and evict sequences until the cache is within this limit."""
        self.max_tokens = max_tokens
        self._shrink(max_tokens)

    def clear(self) -> None:
        """Evict all sequences."""
        self._shrink(0)

    def _shrink(self, num_tokens: int) -> None:
        while self.num_tokens > num_tokens:
            self.drop(next(iter(self._blocks)))


def num_shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix of two sequences.

    This function is called often, so it compares whole chunks first.
    """
    end, index = min(len(first), len(second)), 0
    while index < end and first[index : index + _CHUNK_TOKENS] == second[index : index + _CHUNK_TOKENS]:
        index += _CHUNK_TOKENS
    while index < end and first[index] == second[index]:
        index += 1
    return min(index, end)
