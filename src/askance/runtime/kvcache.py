"""Keys and values by the tokens they belong to: what a prompt shares with an earlier one is found again.

A tree of blocks. A node holds up to `BLOCK_TOKENS` token ids, and the keys and values that a model computed
for them behind all tokens on the way from the root. Only a last block holds fewer. What is being computed
owns its keys and values: it copies blocks out of the tree and into it, so a block can go at any time, and
nobody has to count who uses it.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

from askance.core.types import TokenIds

BLOCK_TOKENS = 16
"""Where two texts part within a block, each has a block of its own; the smaller, the less is held twice."""

B = TypeVar("B")


@dataclass(slots=True, eq=False)
class _Node(Generic[B]):
    """A block in the tree; `children` are in the order of their ids."""

    ids: TokenIds
    block: B | None
    parent: "_Node[B] | None"
    used_at: int = 0
    children: list["_Node[B]"] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.ids) == BLOCK_TOKENS or self.parent is None

    def nearest(self, ids: TokenIds) -> tuple["_Node[B] | None", int]:
        """The child that begins most like `ids`, and how many tokens they share.

        Children are in the order of their ids: it is one of the two that `ids` would stand between.
        """
        at = bisect_left(self.children, ids, key=_ids)
        shared = [(num_shared(child.ids, ids), child) for child in self.children[max(0, at - 1) : at + 1]]
        count, child = max(shared, key=lambda each: each[0], default=(0, None))
        return (child, count) if count else (None, 0)


class PrefixTree(Generic[B]):
    """Blocks by token ids, the least recently used of which go first.

    Attributes:
        num_blocks: in the tree.
        max_blocks: what it may hold; lower it, and call `shrink`, to make room for something else.
    """

    def __init__(self, max_blocks: int = 0) -> None:
        self.num_blocks, self.max_blocks = 0, max_blocks
        self._root: _Node[B] = _Node((), None, None)
        self._clock = 0

    def find(self, ids: Sequence[int]) -> list[tuple[B, int]]:
        """Blocks for the longest known prefix of `ids`, each with how many of its tokens belong to it.

        All but the last one are used whole.
        """
        node, start, found = self._root, 0, list[tuple[B, int]]()
        self._clock += 1
        while node.is_full and start < len(ids):
            child, count = node.nearest(tuple(ids[start : start + BLOCK_TOKENS]))
            if child is None:
                break
            assert child.block is not None
            child.used_at = self._clock
            found.append((child.block, count))
            start += count
            if count < len(child.ids):
                break
            node = child
        return found

    def add(self, ids: Sequence[int], save: Callable[[int, int], B]) -> None:
        """Keep the blocks of `ids` that are not known yet, as far as there is room.

        Args:
            save: the block of the tokens from one offset to another.
        """
        self._clock += 1
        node, start = self._known(ids)
        # All room at once: to look for what was used least recently, the whole tree is walked.
        num_missing = -(-(len(ids) - start) // BLOCK_TOKENS)
        self._forget(self.num_blocks + num_missing - self.max_blocks, keep=node)
        for first in range(start, len(ids), BLOCK_TOKENS):
            if self.num_blocks >= self.max_blocks:
                return
            chunk = tuple(ids[first : first + BLOCK_TOKENS])
            added = _Node(chunk, save(first, first + len(chunk)), node, self._clock)
            insort(node.children, added, key=_ids)
            self.num_blocks += 1
            node = added

    def _known(self, ids: Sequence[int]) -> tuple[_Node[B], int]:
        """How much of `ids` needs no new block, and the node of the last whole block in it.

        A block that new tokens only make longer is taken out: the longer one takes its place.
        """
        node, start = self._root, 0
        while start < len(ids):
            chunk = tuple(ids[start : start + BLOCK_TOKENS])
            child, count = node.nearest(chunk)
            if child is None or count < len(chunk):
                if child is not None and count == len(child.ids):
                    self._remove(child)
                break
            child.used_at = self._clock
            start += count
            if child.is_full:
                node = child
        return node, start

    def clear(self) -> None:
        """Forget all."""
        self._root.children.clear()
        self.num_blocks = 0

    def shrink(self) -> None:
        """Forget as many blocks as there are too many."""
        self._forget(self.num_blocks - self.max_blocks)

    def _forget(self, count: int, keep: _Node[B] | None = None) -> None:
        """Forget `count` leaves, as far as there are so many; the least recently used first."""
        if count <= 0:
            return
        leaves = [(node.used_at, id(node), node) for node in self._nodes() if not node.children]
        heapify(leaves)
        while count > 0 and leaves:
            _, _, node = heappop(leaves)
            if node is keep:
                continue
            self._remove(node)
            count -= 1
            parent = node.parent
            if parent is not None and parent.parent is not None and not parent.children:
                heappush(leaves, (parent.used_at, id(parent), parent))

    def _remove(self, node: _Node[B]) -> None:
        assert node.parent is not None
        node.parent.children.remove(node)
        self.num_blocks -= 1

    def _nodes(self) -> Iterator[_Node[B]]:
        waiting = [*self._root.children]
        while waiting:
            node = waiting.pop()
            waiting += node.children
            yield node


def _ids(node: _Node[Any]) -> TokenIds:
    return node.ids


def num_shared(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens the two have in common at the beginning."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))
