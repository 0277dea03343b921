"""Reranking: reorder the candidates of a retriever with a better scoring function.

The setting `rerank` names a reranker with its options, and so may the specification of a retriever:

    bundled?candidates=20&retriever_weight=0.5
    bm25:DIR?rerank=bundled&candidates=20&retriever_weight=0.5

``bundled`` is the cross-encoder that comes with askance.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any, cast

from askance.core.errors import InputError, ModelFailure, RetrieverFailure, UnknownName
from askance.core.extensions import check_port, find_with_place, known_names, make_extension
from askance.core.filters import FieldKinds, Filter
from askance.core.ports import FilteringRetriever, Reranker, Retriever
from askance.core.types import Hit
from askance.retrieval.ranking import check_k, rank_hits

RERANKERS = {
    "bundled": "askance.models.pair_scorer:load_cross_encoder",
    "cross-encoder": "askance.models.pair_scorer:load_cross_encoder",
    "model": "askance.models.label_reranker:load_label_reranker",
}
"""The factory for each kind of reranker, as "module:function". A factory is imported on first use."""
CANDIDATES = 50
"""The default number of passages to rerank."""
BUNDLED_OPTIONS = {"candidates": "10", "retriever_weight": "1"}
"""The default options of the reranker ``bundled``, as measured with BM25 (see docs/retrieval.md)."""
_OPTIONS = ("candidates", "retriever_weight")


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
            raise RetrieverFailure(f"{self.name} could not be searched for {query!r}: {error}") from error
        if len(scores) != len(passages) or not all(map(math.isfinite, scores)):
            raise RetrieverFailure(
                f"the reranker {self.reranker.name} gave {len(scores)} scores for {len(passages)} passages, "
                "or some that are not finite numbers: use another one."
            )
        totals = [score + self.retriever_weight * hit.score for score, hit in zip(scores, hits, strict=True)]
        return rank_hits(zip(totals, passages, strict=True), k)


def split_reranker(spec: str) -> tuple[str, str]:
    """Split the specification of a retriever into its own part and the specification of its reranker.

    The latter is an empty string if no reranker is named. All options that are not those of the reranker
    stay with the retriever.
    """
    named, _, query = spec.partition("?")
    options = _options_in(query)
    reranker = options.pop("rerank", "")
    if not reranker:
        return spec, ""
    own = {name: options.pop(name) for name in [*options] if name in _OPTIONS}
    return _with_options(named, options), _with_options(reranker, own)


def join_reranker(spec: str, reranker: str) -> str:
    """Return the specification of a retriever with a reranker, the inverse of `split_reranker`."""
    named, own = _split_own_options(reranker)
    return _with_options(spec, {"rerank": named, **own})


def with_reranker(retriever: Retriever, reranker: str | Reranker) -> RerankedRetriever:
    """Return a retriever whose hits are reranked.

    Args:
        reranker: A reranker, or the specification of one (see `load_reranker`), which may end with the
            options `candidates` and `retriever_weight` of `RerankedRetriever`. The defaults of ``bundled``
            are `BUNDLED_OPTIONS`.

    Raises:
        UnknownName: There is no such reranker.
        InputError: The reranker can't be loaded, `candidates` is not a whole number of at least 1, or
            `retriever_weight` is not a number of at least 0.
    """
    if not isinstance(reranker, str):
        return RerankedRetriever(retriever, reranker)
    spec, own = _split_own_options(reranker)
    defaults = {"candidates": str(CANDIDATES), "retriever_weight": "0"}
    options = {**defaults, **(BUNDLED_OPTIONS if spec == "bundled" else {}), **own}
    candidates, weight = options["candidates"], options["retriever_weight"]
    if not candidates.isdecimal() or int(candidates) < 1:
        raise InputError(f"candidates={candidates!r} of a reranker: give a whole number from 1.")
    try:
        retriever_weight = float(weight)
    except ValueError:
        retriever_weight = -1
    if not 0 <= retriever_weight < math.inf:
        raise InputError(f"retriever_weight={weight!r} of a reranker: give a number from 0.")
    return RerankedRetriever(retriever, load_reranker(spec), int(candidates), retriever_weight)


def load_reranker(spec: str) -> Reranker:
    """Load a reranker.

    Args:
        spec: ``bundled``, ``cross-encoder:NAME?device=cuda``, a plug-in, ``module:Class``, or ``model:SPEC``
            for the probability that the model SPEC answers Yes (see `models.label_reranker`).

    Raises:
        UnknownName: There is no such reranker.
        InputError: The reranker can't be found, imported or made, or is not a reranker.
        MissingExtra: A package is missing. The message names the pip line.
    """
    named, _, query = spec.partition("?")
    kind, _, place = named.partition(":")
    factory: Any
    if kind in RERANKERS and not (place and kind == "bundled"):
        if not place and kind != "bundled":
            forms = "model:SPEC" if kind == "model" else f"{kind}:NAME or {kind}:DIR"
            raise InputError(f"the reranker {spec!r} names no model: write {forms}.")
        factory = resolve_name(RERANKERS[kind])
    else:
        extension = find_with_place("rerankers", named)
        if extension is None:
            raise UnknownName("reranker", spec, known_names("rerankers", RERANKERS))
        factory, place = extension
    places = [place] if place else []
    reranker: Reranker = make_extension(factory, f"the reranker {spec}", *places, **_options_in(query))
    check_port(reranker, Reranker, f"the reranker {spec}")
    return reranker


def _options_in(query: str) -> dict[str, str]:
    return dict(pair.partition("=")[::2] for pair in query.split("&") if pair)


def _split_own_options(spec: str) -> tuple[str, dict[str, str]]:
    """Split the specification of a reranker into what names it and the options of reranking."""
    named, _, query = spec.partition("?")
    options = _options_in(query)
    own = {name: options.pop(name) for name in _OPTIONS if name in options}
    return _with_options(named, options), own


def _with_options(spec: str, options: Mapping[str, str]) -> str:
    """Return a specification with further options."""
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"{spec}{'&' if '?' in spec else '?'}{query}" if query else spec
