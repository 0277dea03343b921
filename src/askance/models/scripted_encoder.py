"""A public fake: an encoder without weights, for tests and for trying out."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from askance.core.types import TextKind


class ScriptedEncoder:
    """An `Encoder` that adds up a fixed pseudo-random vector for each word.

    Texts with the same words, in whatever order and case, have the same vector; texts that share words have
    similar ones.
    """

    def __init__(self, dimensions: int = 16, *, name: str = "scripted") -> None:
        self.name = name
        self.fingerprint = f"scripted, {dimensions} dimensions"
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str], kind: TextKind = "text") -> NDArray[np.float32]:
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
