"""A prefix cache: texts with the keys and values that were computed for them.

What is computed owns its keys and values, and copies of them, or references to them, are kept here; so a text
can go at any time, and nobody has to count who uses it.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Generic, TypeVar

from askance.core.types import TokenIds

B = TypeVar("B")
_CHUNK = 64


class PrefixCache(Generic[B]):
    """Texts by their token ids; the least recently used one goes first.

    Attributes:
        num_tokens: of all texts together.
        max_tokens: the most that there may be.
    """

    def __init__(self, max_tokens: int = 0) -> None:
        self.num_tokens, self.max_tokens = 0, max_tokens
        self._blocks = dict[TokenIds, B]()  # in the order of their last use
        self._in_order = list[TokenIds]()

    def find(self, ids: Sequence[int]) -> tuple[B | None, int]:
        """What is kept for the text with the longest prefix in common with `ids`, and how long that is.

        It is one of the two between which `ids` would stand in the order of ids.
        """
        wanted = tuple(ids)
        at = bisect_left(self._in_order, wanted)
        near = self._in_order[max(0, at - 1) : at + 1]
        count, found = max(((num_shared(each, wanted), each) for each in near), default=(0, ()))
        if not count:
            return None, 0
        block = self._blocks[found] = self._blocks.pop(found)
        return block, count

    def add(self, ids: TokenIds, block: B) -> None:
        """Keep a text, in the place of texts that it begins with.

        A text that is longer than all may be, or that another one begins with, is not kept.
        """
        if not ids or len(ids) > self.max_tokens or self.find(ids)[1] == len(ids):
            return
        for begun in [each for each in self._blocks if each == ids[: len(each)]]:
            self.drop(begun)
        self._shrink(self.max_tokens - len(ids))
        self._blocks[ids] = block
        self.num_tokens += len(ids)
        insort(self._in_order, ids)

    def drop(self, ids: TokenIds) -> None:
        """Do not keep a text any more."""
        if ids in self._blocks:
            del self._blocks[ids], self._in_order[bisect_left(self._in_order, ids)]
            self.num_tokens -= len(ids)

    def limit(self, max_tokens: int) -> None:
        """Let there be no more tokens from now on."""
        self.max_tokens = max_tokens
        self._shrink(max_tokens)

    def clear(self) -> None:
        """Keep nothing of what there is."""
        self._shrink(0)

    def _shrink(self, num_tokens: int) -> None:
        while self.num_tokens > num_tokens:
            self.drop(next(iter(self._blocks)))


def num_shared(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens the two have in common at the beginning. It is asked often, so chunks are compared."""
    most, at = min(len(first), len(second)), 0
    while at < most and first[at : at + _CHUNK] == second[at : at + _CHUNK]:
        at += _CHUNK
    while at < most and first[at] == second[at]:
        at += 1
    return min(at, most)
