"""Public fakes: a retriever and an encoder that do what a test says, without files or models."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from askance.core.errors import InputError
from askance.core.types import Hit, Passage

Outcome = Sequence[Passage] | Exception


class ScriptedRetriever:
    """A `Retriever` that answers from a script, and records what it was asked.

    Args:
        outcomes: what to find: passages, best first, or an error to raise. Either one outcome for every
            query, or one each by query; other queries then find nothing.

    Attributes:
        queries: every query so far, in order.

    Scores are 1, 1/2, 1/3 and so on. As with any retriever, a query without a letter or digit finds nothing.
    """

    fingerprint = ""

    def __init__(self, outcomes: Mapping[str, Outcome] | Outcome = (), *, name: str = "scripted") -> None:
        self.name = name
        self.queries: list[str] = []
        self._outcomes = outcomes

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """At most `k` passages of the script."""
        if k < 1:
            raise InputError(f"k={k}: ask for at least 1 passage.")
        self.queries.append(query)
        outcome = self._outcomes.get(query, ()) if isinstance(self._outcomes, Mapping) else self._outcomes
        if isinstance(outcome, Exception):
            raise outcome
        passages = [passage for passage in outcome if passage.id not in exclude]
        found = passages[:k] if any(character.isalnum() for character in query) else []
        return tuple(Hit(passage, 1 / rank, rank) for rank, passage in enumerate(found, start=1))


class ScriptedEncoder:
    """An `Encoder` that adds up a fixed pseudo-random vector for each word.

    Texts with the same words, in whatever order and case, have the same vector; texts that share words have
    similar ones.
    """

    def __init__(self, dimensions: int = 16, *, name: str = "scripted") -> None:
        self.name = name
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape [len(texts), dimensions]; every row has length 1."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            # Sorted, since sums of floats depend on their order.
            total = np.sum([self._vector(word) for word in sorted(text.lower().split()) or [""]], axis=0)
            vectors[row] = total / np.linalg.norm(total)
        return vectors

    def _vector(self, word: str) -> NDArray[np.float64]:
        seed = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return np.random.Generator(np.random.Philox(int.from_bytes(seed, "little"))).normal(
            size=self.dimensions
        )
