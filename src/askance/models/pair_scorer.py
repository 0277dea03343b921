"""The part that all cross-encoders share: a thread that scores the pairs of one query after another."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from askance.core.errors import ModelFailure
from askance.core.panics import panics_as
from askance.core.strict_json import whole_characters
from askance.core.types import Passage


class PairScorer(ABC):
    """A `Reranker` that reads a query together with each passage, in a thread of its own.

    Args:
        fingerprint: A digest of everything that scores depend on.
    """

    def __init__(self, name: str, fingerprint: str) -> None:
        self.name, self.fingerprint = name, fingerprint
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="askance-reranker")

    async def score(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """Return the relevance of each passage (title and text) to the query, on the model's own scale.

        Raises:
            ModelFailure: The model failed, for example for lack of memory.
        """
        pairs = [(whole_characters(query), whole_characters(passage.titled_text)) for passage in passages]
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._score, pairs)

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        try:
            with panics_as(ValueError):
                return self._score_pairs(pairs)
        except Exception as error:  # the errors of an engine share no class
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelFailure(f"the reranker {self.name} broke: {reason.rstrip('.')}.") from error

    @abstractmethod
    def _score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the score of each pair of a query and a text."""
