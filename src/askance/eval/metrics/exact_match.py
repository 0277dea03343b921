"""Exact match: whether the answer is one of the accepted ones, once both are normalised.

SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250), HotpotQA, DRAGIN; AirRAG (Feng et al. 2025, arXiv 2501.10053)
and the closed sets of Self-RAG (Asai et al. 2023, arXiv 2310.11511) by their names.
"""

from collections.abc import Sequence

from askance.eval.metrics.normalisations import NORMALISATIONS, AnswerForm


def exact_match(prediction: str, golds: Sequence[str], normalisation: AnswerForm = "dragin") -> float | None:
    """1 or 0; nothing where the normalisation ignores every gold.

    As in SQuAD and DRAGIN, an empty answer matches a gold made of articles and punctuation, such as "A".

    >>> exact_match("The Rhine.", ["Rhein", "rhine"])
    1.0
    """
    form = NORMALISATIONS[normalisation]
    accepted = form.accepted(golds)
    return float(form.normal_form(prediction) in accepted) if accepted else None
