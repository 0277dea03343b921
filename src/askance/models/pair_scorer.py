"""The part that all cross-encoders share: a thread that scores the pairs of one query after another."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isfinite

from askance.core.errors import ModelFailure
from askance.core.panics import panics_as
from askance.core.strict_json import whole_characters
from askance.core.types import Passage


class PairScorer(ABC):
    """A `Reranker` that reads a query together with each passage, in a thread of its own.

    Args:
        fingerprint: A digest of everything that scores depend on.
        max_tokens: The number of tokens after which a pair is truncated.
    """

    def __init__(self, name: str, fingerprint: str, max_tokens: int) -> None:
        self.name, self.fingerprint, self.max_tokens = name, fingerprint, max_tokens
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="askance-reranker")

    async def score(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """Return the relevance of each passage (title and text) to the query, as a logit.

        Raises:
            ModelFailure: The model failed, for example for lack of memory.
        """
        return await self.score_texts([(query, passage.titled_text) for passage in passages])

    async def score_texts(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the logit of each pair of a query and a text.

        Raises:
            ModelFailure: The model failed, for example for lack of memory.
        """
        pairs = [(whole_characters(query), whole_characters(text)) for query, text in pairs]
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._score, pairs)

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        try:
            with panics_as(ValueError):
                scores = self._score_pairs(pairs)
        except Exception as error:  # the errors of an engine share no class
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelFailure(f"the reranker {self.name} broke: {reason.rstrip('.')}.") from error
        for score, (query, _) in zip(scores, pairs, strict=True):
            if not isfinite(score):
                raise ModelFailure(
                    f"the model {self.name} gave a pair of texts the score {score}, which is no finite "
                    f"number ({query[:80]!r} …): its weights are damaged, or need another precision."
                )
        return scores

    @abstractmethod
    def _score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the logit of each pair of a query and a text."""

    @abstractmethod
    def count_tokens(self, query: str, text: str) -> int:
        """Return the number of tokens that the model reads of a pair."""
