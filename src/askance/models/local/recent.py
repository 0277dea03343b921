"""What was worked out a moment ago, and is asked for again."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The results for the last `most` different arguments; the least recently used goes first.

    Unlike `functools.lru_cache` it does not hold what works them out, so that a model whose methods use it
    goes as soon as nobody else holds it. It may be used from several threads.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._found = dict[K, V]()

    def get(self, key: K, work_out: Callable[[], V]) -> V:
        """The result for `key`. An error of `work_out` is raised, and not kept."""
        with self._lock:
            if key in self._found:
                value = self._found[key] = self._found.pop(key)
                return value
        value = work_out()
        with self._lock:
            self._found[key] = value
            if len(self._found) > self._most:
                del self._found[next(iter(self._found))]
        return value
