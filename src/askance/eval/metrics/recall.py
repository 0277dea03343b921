"""Recall: the share of an accepted answer's words that are in the answer.

HotpotQA (Yang et al. 2018, arXiv 1809.09600), DRAGIN.
"""

from collections.abc import Sequence

from askance.eval.metrics.overlap import shared_words


def recall(prediction: str, golds: Sequence[str]) -> float:
    """From 0 to 1, the best over the golds; that need not be the gold that precision or F1 is best for.

    "Ada" against "Ada Lovelace": one word of two.

    >>> recall("Ada", ["Ada Lovelace"])
    0.5
    """
    return max((shared / gold for shared, _, gold in shared_words(prediction, golds)), default=0.0)
