"""How far the attention of two models agrees on which words are in doubt: counts, shares and correlations.

A sentence has, by source, the score of each word with content, and the query that it would give if it were
the doubtful one.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

OWN = "own"
Reading = Mapping[str, Any]
"""Of one source: its ``words``, their ``scores`` and ``queries``."""
Sentence = Mapping[str, Reading]
"""By source; `OWN` is the answering model."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a proxy agrees with the model's own attention, over the same sentences.

    Attributes:
        kappa: Cohen's, of the verdicts; 0 is chance, None where it is not defined.
        same_word: share with the same doubtful word, of the sentences that both search for.
        query_overlap: mean Jaccard index of the queries' words, over the same.
        rank_correlation: Spearman's, of the scores of all words of all sentences; no threshold is in it.
    """

    proxy: str
    own_threshold: float
    proxy_threshold: float
    num_sentences: int
    own_searches: int
    proxy_searches: int
    both_search: int
    same_verdict: float
    kappa: float | None
    same_word: float | None
    query_overlap: float | None
    rank_correlation: float | None


def matched_threshold(sentences: Sequence[Sentence], threshold: float, proxy: str) -> float:
    """At which `proxy` is in doubt about as many sentences as the own attention is at `threshold`.

    Of all such thresholds, the one nearest to `threshold`.
    """
    wanted = sum(doubtful(sentence[OWN], threshold) is not None for sentence in sentences)
    greatest = sorted((max(sentence[proxy]["scores"], default=0.0) for sentence in sentences), reverse=True)
    low = greatest[wanted] if wanted < len(greatest) else 0.0
    high = math.nextafter(greatest[wanted - 1], 0.0) if wanted else math.inf
    return max(low, min(threshold, high))


def doubtful(read: Reading, threshold: float) -> int | None:
    """Which word is the first above the threshold."""
    return next((at for at, score in enumerate(read["scores"]) if score > threshold), None)


def agreement(
    sentences: Sequence[Sentence], proxy: str, own_threshold: float, proxy_threshold: float
) -> Agreement:
    """Of the verdicts at two thresholds, and of the scores."""
    pairs = [
        (doubtful(sentence[OWN], own_threshold), doubtful(sentence[proxy], proxy_threshold))
        for sentence in sentences
    ]
    own, others = ([pair[side] is not None for pair in pairs] for side in (0, 1))
    both = [
        (own_at, proxy_at, sentence)
        for (own_at, proxy_at), sentence in zip(pairs, sentences, strict=True)
        if own_at is not None and proxy_at is not None
    ]
    overlaps = [
        jaccard(sentence[OWN]["queries"][own_at], sentence[proxy]["queries"][proxy_at])
        for own_at, proxy_at, sentence in both
    ]
    scores = [
        [score for sentence in sentences for score in sentence[name]["scores"]] for name in (OWN, proxy)
    ]
    return Agreement(
        proxy,
        own_threshold,
        proxy_threshold,
        num_sentences=len(sentences),
        own_searches=sum(own),
        proxy_searches=sum(others),
        both_search=len(both),
        same_verdict=share([a == b for a, b in zip(own, others, strict=True)]) or 0.0,
        kappa=kappa(own, others),
        same_word=share([own_at == proxy_at for own_at, proxy_at, _ in both]),
        query_overlap=share(overlaps),
        rank_correlation=spearman(*scores),
    )


def share(values: Sequence[float]) -> float | None:
    """The mean, if there is one."""
    return statistics.fmean(values) if values else None


def jaccard(first: str, second: str) -> float:
    """Words that two queries share, of all their words, whatever the letter case; 1 for two empty ones."""
    words, others = set(first.lower().split()), set(second.lower().split())
    return len(words & others) / len(words | others) if words | others else 1.0


def kappa(first: Sequence[bool], second: Sequence[bool]) -> float | None:
    """Cohen 1960: agreement beyond what the two frequencies alone would give, of what is possible."""
    a, b, same = share(first), share(second), share([x == y for x, y in zip(first, second, strict=True)])
    if a is None or b is None or same is None:
        return None
    by_chance = a * b + (1 - a) * (1 - b)
    return (same - by_chance) / (1 - by_chance) if by_chance < 1 else None


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The correlation of the ranks; equal values share the mean of theirs."""
    ranks = _ranks(first), _ranks(second)
    if not len(ranks[0]) or not all(np.ptp(each) for each in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, group, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: NDArray[np.float64] = (last - (counts - 1) / 2)[group]
    return means
