"""Cross-encoders, which score pairs of texts in a thread of their own."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isfinite

from askance.core.errors import ModelFailure
from askance.core.panics import panics_as
from askance.core.ports import PairScorer
from askance.core.safe_text import whole_characters
from askance.core.types import Passage

_TOKEN_CHARACTERS = 20
"""The number of characters for each token that are read of a text. Tokenizers truncate a pair by making all
its parts, which takes gigabytes if both texts are long."""
_TURN_CHARACTERS = 8_000
"""The number of characters after which pairs of other questions get their turn."""


class CrossEncoder(PairScorer):
    """A `PairScorer` and `Reranker`, which reads a query together with each text in a thread of its own.

    Args:
        fingerprint: A digest of everything that scores depend on.
        max_tokens: The number of tokens after which a pair is truncated.
    """

    def __init__(self, name: str, fingerprint: str, max_tokens: int) -> None:
        self.name, self.fingerprint, self.max_tokens = name, fingerprint, max_tokens
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="askance-reranker")

    async def score(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Return the logit of the query with each passage (title and text).

        Raises:
            ModelFailure: The model failed, for example for lack of memory.
        """
        return await self.score_pairs([(query, passage.titled_text) for passage in passages])

    async def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        turns, num_characters = list[list[tuple[str, str]]](), _TURN_CHARACTERS
        for pair in ((self._beginning(query), self._beginning(text)) for query, text in pairs):
            if num_characters >= _TURN_CHARACTERS:
                turns.append([])
                num_characters = 0
            turns[-1].append(pair)
            num_characters += sum(map(len, pair))
        run = asyncio.get_running_loop().run_in_executor
        return [logit for turn in turns for logit in await run(self._thread, self._score, turn)]

    def count_tokens(self, query: str, text: str) -> int:
        return self._num_tokens(self._beginning(query), self._beginning(text))

    def _beginning(self, text: str) -> str:
        return whole_characters(text[: self.max_tokens * _TOKEN_CHARACTERS])

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        try:
            with panics_as(ValueError):
                logits = self._logits(pairs)
        except Exception as error:  # the errors of an engine share no class
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelFailure(f"the reranker {self.name} broke: {reason.rstrip('.')}.") from error
        for logit, (query, _) in zip(logits, pairs, strict=True):
            if not isfinite(logit):
                raise ModelFailure(
                    f"the model {self.name} gave a pair of texts the score {logit}, which is no finite "
                    f"number ({query[:80]!r} …): its weights are damaged, or need another precision."
                )
        return logits

    @abstractmethod
    def _logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the logit of each pair; there is at least one."""

    @abstractmethod
    def _num_tokens(self, query: str, text: str) -> int:
        """Return the number of tokens that the model reads of a pair, at most `max_tokens`."""
