"""Exact match: whether the answer is one of the accepted ones, once both are normalised.

SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250), HotpotQA, DRAGIN.
"""

from collections.abc import Sequence

from askance.text.answers import normalise_answer


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1 or 0. An empty answer matches a gold made of articles and punctuation, such as "A", as it does there.

    >>> exact_match("The Rhine.", ["Rhein", "rhine"])
    1.0
    """
    return float(normalise_answer(prediction) in map(normalise_answer, golds))
