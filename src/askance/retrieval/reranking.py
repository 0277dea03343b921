"""Reranking: reorder the candidates of a retriever with a better scoring function.

The setting `rerank` names a reranker with its options:

    bundled?candidates=20&retriever_weight=0.5

``bundled`` is the cross-encoder that comes with askance.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

from askance.core.errors import InputError, ModelFailure, RetrieverFailure
from askance.core.filters import FieldKinds, Filter
from askance.core.ports import FilteringRetriever, Reranker, Retriever
from askance.core.types import Hit
from askance.retrieval.ranking import check_k, rank_hits

CANDIDATES = 50
"""The default number of passages to rerank."""
BUNDLED_OPTIONS = {"candidates": "10", "retriever_weight": "1"}
"""The default options of the reranker ``bundled``, as measured with BM25 (see docs/retrieval.md)."""


@dataclass(frozen=True, slots=True)
class RerankedRetriever:
    """A `Retriever` that reranks the hits of another retriever.

    Attributes:
        candidates: The number of hits to rerank. If k is greater, k hits are reranked, so even the first hit
            may depend on k.
        retriever_weight: The weight of the retriever's own score, which is added to that of the reranker.
    """

    retriever: Retriever
    reranker: Reranker
    candidates: int = CANDIDATES
    retriever_weight: float = 0.0

    @property
    def name(self) -> str:
        """Return the names of the retriever and the reranker."""
        return f"{self.retriever.name}, the first {self.candidates} reranked by {self.reranker.name}"

    @property
    def fingerprint(self) -> str:
        """Return both fingerprints, the number of candidates and the weight.

        The result is an empty string if the retriever or the reranker has no fingerprint.
        """
        both = self.retriever.fingerprint, self.reranker.fingerprint
        weight = f", weight {self.retriever_weight}" if self.retriever_weight else ""
        return f"reranked, {self.candidates}{weight}; {'; '.join(both)}" if all(both) else ""

    @property
    def fields(self) -> FieldKinds | None:
        """The fields of the retriever, or None if it can't filter."""
        return getattr(self.retriever, "fields", None)

    def filtered(self, where: Filter) -> "RerankedRetriever":
        """Return a retriever that reranks the filtered hits of the retriever."""
        return replace(self, retriever=cast(FilteringRetriever, self.retriever).filtered(where))

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return at most `k` passages, sorted by their new score, then by passage id.

        Raises:
            InputError: `k` is below 1.
            RetrieverFailure: The retriever or the reranker failed.
        """
        check_k(k)
        hits = await self.retriever.search(query, max(k, self.candidates), exclude=exclude)
        passages = [hit.passage for hit in hits]
        try:
            scores = list(await self.reranker.score(query, passages)) if passages else []
        except ModelFailure as error:
            raise RetrieverFailure(f"{self.name} could not be searched for {query!r:.99}: {error}") from error
        if len(scores) != len(passages) or not all(map(math.isfinite, scores)):
            raise RetrieverFailure(
                f"the reranker {self.reranker.name} gave {len(scores)} scores for {len(passages)} passages, "
                "or some that are not finite numbers: use another one."
            )
        totals = [score + self.retriever_weight * hit.score for score, hit in zip(scores, hits, strict=True)]
        return rank_hits(zip(totals, passages, strict=True), k)


def read_options(options: Mapping[str, object]) -> tuple[int, float]:
    """Return `candidates` and `retriever_weight` of `RerankedRetriever` from the options of a reranker.

    Raises:
        InputError: `candidates` is not a whole number of at least 1, or `retriever_weight` is not a number of
            at least 0.
    """
    candidates = str(options.get("candidates", CANDIDATES))
    weight = str(options.get("retriever_weight", 0))
    if not candidates.isdecimal() or int(candidates) < 1:
        raise InputError(f"candidates={candidates!r} of a reranker: give a whole number from 1.")
    with suppress(ValueError):
        if 0 <= float(weight) < math.inf:
            return int(candidates), float(weight)
    raise InputError(f"retriever_weight={weight!r} of a reranker: give a number from 0.")
