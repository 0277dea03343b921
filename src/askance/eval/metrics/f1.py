"""F1: the harmonic mean of precision and recall over words.

SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250); yes and no as in HotpotQA (Yang et al. 2018, arXiv
1809.09600) and DRAGIN.
"""

from collections.abc import Sequence

from askance.eval.metrics.overlap import shared_words


def f1(prediction: str, golds: Sequence[str]) -> float:
    """From 0 to 1, the best over the golds; 0 where both sides have no words left, though they match exactly.

    "river Rhine" against "Rhine": precision 1/2, recall 1.

    >>> round(f1("the river Rhine", ["the Rhine"]), 3)
    0.667
    """
    shares = shared_words(prediction, golds)
    return max((2 * shared / (predicted + gold) for shared, predicted, gold in shares), default=0.0)
