"""Recall: the share of an accepted answer's words that are in the answer.

HotpotQA (Yang et al. 2018, arXiv 1809.09600), DRAGIN.
"""

from collections.abc import Sequence

from askance.eval.metrics.normalisations import WordForm
from askance.eval.metrics.overlap import best_overlap


def recall(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """From 0 to 1, the best over the golds; that need not be the gold that precision or F1 is best for.

    Nothing where the normalisation ignores every gold. "Ada" against "Ada Lovelace": one word of two.

    >>> recall("Ada", ["Ada Lovelace"])
    0.5
    """
    return best_overlap(prediction, golds, normalisation, lambda shared, predicted, gold: shared / gold)
