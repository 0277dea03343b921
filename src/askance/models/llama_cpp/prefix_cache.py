"""A prefix cache in memory: prompts that llama.cpp has read, and whose streams other texts have taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_CHUNK = 64


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """A prompt with its keys and values.

    Attributes:
        ids: the tokens of the prompt.
        state: what `Context.save` returned.
    """

    ids: Sequence[int]
    state: Any


class PrefixCache:
    """Saved prompts; the least recently used one is evicted first."""

    def __init__(self) -> None:
        self._max_tokens = 0
        self._saved = list[Saved]()  # in the order of their last use

    def limit(self, max_tokens: int) -> None:
        """Set how many tokens all prompts may have together."""
        self._max_tokens = max_tokens
        self._shrink()

    def takes(self, num_tokens: int) -> bool:
        """Whether a prompt of so many tokens can be kept at all."""
        return num_tokens <= self._max_tokens

    def add(self, saved: Saved) -> None:
        """Keep a prompt in the place of those that it begins with, unless it is longer than all may be."""
        if not self.takes(len(saved.ids)):
            return
        self._saved = [each for each in self._saved if num_shared(each.ids, saved.ids) < len(each.ids)]
        self._saved.append(saved)
        self._shrink()

    def find(self, ids: Sequence[int]) -> tuple[Saved | None, int]:
        """The saved prompt with the longest prefix in common with `ids`, and the length of that prefix."""
        found = max(self._saved, key=lambda each: num_shared(each.ids, ids), default=None)
        return found, 0 if found is None else num_shared(found.ids, ids)

    def use(self, saved: Saved) -> None:
        """Note that a prompt was used just now."""
        if saved in self._saved:
            self._saved.remove(saved)
            self._saved.append(saved)

    def drop(self, saved: Saved) -> None:
        """Do not keep a prompt any more."""
        if saved in self._saved:
            self._saved.remove(saved)

    def clear(self) -> None:
        """Keep nothing."""
        self._saved.clear()

    def _shrink(self) -> None:
        while sum(len(each.ids) for each in self._saved) > self._max_tokens:
            del self._saved[0]


def num_shared(first: Sequence[int], second: Sequence[int]) -> int:
    """The length of the common prefix; compared in chunks, since this is asked often."""
    most, at = min(len(first), len(second)), 0
    while at < most and list(first[at : at + _CHUNK]) == list(second[at : at + _CHUNK]):
        at += _CHUNK
    while at < most and first[at] == second[at]:
        at += 1
    return min(at, most)
