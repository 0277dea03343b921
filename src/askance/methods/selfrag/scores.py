"""What reflection tokens are worth: the scores of Self-RAG (Asai et al. 2024, equations 3 and 4, appendix).

All read probabilities; a group whose total is 0 scores 0. (The authors' code takes a missing probability of
"relevant" as -100, which makes a candidate without judgement the best.)
"""

from askance.methods.selfrag.tokens import (
    FULLY,
    IRRELEVANT,
    KEEP_USING,
    NO_SEARCH,
    PARTIALLY,
    RELEVANT,
    SEARCH,
    UNSUPPORTED,
    UTILITIES,
    Distribution,
    likeliest,
)

_WORTHS = (-1.0, -0.5, 0.0, 0.5, 1.0)


def relevance_score(probs: Distribution) -> float:
    """The share of "relevant", from 0 to 1."""
    return _mean(probs, {RELEVANT: 1.0, IRRELEVANT: 0.0})


def support_score(probs: Distribution) -> float:
    """The share of "fully supported" and half of that of "partially", from 0 to 1.

    As in the paper's appendix and the authors' code; the paper's body has the best token's share alone.
    """
    return _mean(probs, {FULLY: 1.0, PARTIALLY: 0.5, UNSUPPORTED: 0.0})


def utility_score(probs: Distribution) -> float:
    """The mean of grades 1 to 5, brought to -1 to 1."""
    return _mean(probs, dict(zip(UTILITIES, _WORTHS, strict=True)))


def search_share(probs: Distribution) -> float:
    """The share of "retrieval" among it and "no retrieval", from 0 to 1; 0 where both are.

    As in the paper's appendix; its body divides by the probability of "continue", too. The authors' code
    divides logarithms, which turns the decision around.
    """
    return _mean(probs, {SEARCH: 1.0, NO_SEARCH: 0.0})


def wants_search(probs: Distribution, threshold: float | None) -> bool:
    """Whether to search: the share is above `threshold`, or, without one, "retrieval" is the likeliest."""
    if threshold is None:
        return likeliest(probs) == SEARCH
    return search_share(probs) > threshold


def wants_to_go_on(probs: Distribution) -> bool:
    """Whether "continue to use evidence" is the likeliest of the three."""
    return likeliest(probs) == KEEP_USING


def _mean(probs: Distribution, worths: dict[str, float]) -> float:
    total = sum(probs.get(token, 0.0) for token in worths)
    if total <= 0:
        return 0.0
    return sum(worth * probs.get(token, 0.0) for token, worth in worths.items()) / total
