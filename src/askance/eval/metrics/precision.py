"""Precision: the share of the answer's words that are in an accepted answer.

HotpotQA (Yang et al. 2018, arXiv 1809.09600), DRAGIN.
"""

from collections.abc import Sequence

from askance.eval.metrics.overlap import shared_words


def precision(prediction: str, golds: Sequence[str]) -> float:
    """From 0 to 1, the best over the golds; that need not be the gold that recall or F1 is best for.

    "river Rhine" against "Rhine": one word of two.

    >>> precision("the river Rhine", ["the Rhine"])
    0.5
    """
    return max((shared / predicted for shared, predicted, _ in shared_words(prediction, golds)), default=0.0)
