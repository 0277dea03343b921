"""Reranking: the candidates of a retriever in a better order.

A reranker is named as a part of the specification of a retriever:

    bm25:DIR?rerank=cross-encoder:NAME_OR_DIR&candidates=50
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from askance.core.errors import InputError, ModelFailure, RetrieverFailure, UnknownName, about
from askance.core.extensions import check_port, find_with_place, known_names, make_extension
from askance.core.ports import Reranker, Retriever
from askance.core.types import Hit
from askance.retrieval.ranking import as_hits, check_k

RERANKERS = {"cross-encoder": "askance.models.hf.cross_encoder:load_cross_encoder"}
"""What makes a reranker of a name and options, as "module:function", which is imported on use."""
CANDIDATES = 50
"""How many passages are reranked unless the specification tells."""


@dataclass(frozen=True, slots=True)
class RerankedRetriever:
    """A `Retriever` whose hits are the best candidates of another one, by the scores of a reranker.

    Attributes:
        candidates: how many hits of the other are scored, or k where more are asked for. A k above it changes
            the candidates, and so may change which hit is first.
    """

    retriever: Retriever
    reranker: Reranker
    candidates: int = CANDIDATES

    @property
    def name(self) -> str:
        """Names both."""
        return f"{self.retriever.name}, the first {self.candidates} reranked by {self.reranker.name}"

    @property
    def fingerprint(self) -> str:
        """Of both, and of the number of candidates; empty if one of them has none."""
        both = self.retriever.fingerprint, self.reranker.fingerprint
        return f"reranked, {self.candidates}; {'; '.join(both)}" if all(both) else ""

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """At most `k` passages, those that the reranker scores highest first, equal ones by their ids.

        Raises:
            InputError: `k` is below 1.
            RetrieverFailure: as for the other retriever; or the reranker broke.
        """
        check_k(k)
        hits = await self.retriever.search(query, max(k, self.candidates), exclude=exclude)
        passages = [hit.passage for hit in hits]
        try:
            scores = list(await self.reranker.score(query, passages)) if passages else []
        except ModelFailure as error:
            raise RetrieverFailure(f"{self.name} could not be searched for {query!r}: {error}") from error
        if len(scores) != len(passages) or not all(map(math.isfinite, scores)):
            raise RetrieverFailure(
                f"the reranker {self.reranker.name} gave {len(scores)} scores for {len(passages)} passages, "
                "or some that are no finite numbers: use another one."
            )
        return as_hits(zip(scores, passages, strict=True), k)


def split_reranker(spec: str) -> tuple[str, dict[str, str]]:
    """The specification of a retriever without its reranker, and what it says of that.

    Options of other names are the retriever's own, and so are all of them where no reranker is named.
    """
    named, _, query = spec.partition("?")
    options = _options_in(query)
    if "rerank" not in options:
        return spec, {}
    told = {name: options.pop(name) for name in [*options] if name in ("rerank", "candidates")}
    others = "&".join(f"{name}={value}" for name, value in options.items())
    return f"{named}?{others}" if others else named, told


def reranked(retriever: Retriever, told: Mapping[str, str]) -> RerankedRetriever:
    """A retriever with the reranker that `split_reranker` found.

    Raises:
        UnknownName, InputError: as for `load_reranker`; or `candidates` is no number above 0.
    """
    candidates = told.get("candidates", str(CANDIDATES))
    with about("retriever"):
        if not candidates.isdecimal() or int(candidates) < 1:
            raise InputError(f"candidates={candidates!r} of a reranker: give a whole number from 1.")
        return RerankedRetriever(retriever, load_reranker(told["rerank"]), int(candidates))


def load_reranker(spec: str) -> Reranker:
    """The reranker that ``cross-encoder:NAME?device=cuda``, a plug-in or ``module:Class`` names.

    Raises:
        UnknownName: no such reranker.
        InputError: it can't be found, imported or made, or is no reranker.
        MissingExtra: a package is missing; names the pip line.
    """
    named, _, query = spec.partition("?")
    kind, _, place = named.partition(":")
    factory: Any
    if kind in RERANKERS:
        if not place:
            raise InputError(f"the reranker {spec!r} names no model: write {kind}:NAME or {kind}:DIR.")
        factory = resolve_name(RERANKERS[kind])
    else:
        found = find_with_place("rerankers", named)
        if found is None:
            raise UnknownName("reranker", spec, known_names("rerankers", RERANKERS))
        factory, place = found
    places = [place] if place else []
    reranker: Reranker = make_extension(factory, f"the reranker {spec}", *places, **_options_in(query))
    check_port(reranker, Reranker, f"the reranker {spec}")
    return reranker


def _options_in(query: str) -> dict[str, str]:
    return dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
