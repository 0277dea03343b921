"""Precision: the share of the answer's words that are in an accepted answer.

HotpotQA (Yang et al. 2018, arXiv 1809.09600), DRAGIN.
"""

from collections.abc import Sequence

from askance.eval.metrics.normalisations import WordForm
from askance.eval.metrics.overlap import best_overlap


def precision(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """From 0 to 1, the best over the golds; that need not be the gold that recall or F1 is best for.

    Nothing where the normalisation ignores every gold. "river Rhine" against "Rhine": one word of two.

    >>> precision("the river Rhine", ["the Rhine"])
    0.5
    """
    return best_overlap(prediction, golds, normalisation, lambda shared, predicted, gold: shared / predicted)
