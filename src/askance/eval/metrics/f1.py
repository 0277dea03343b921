"""F1: the harmonic mean of precision and recall over words.

SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250); yes and no as in HotpotQA (Yang et al. 2018, arXiv
1809.09600), DRAGIN and AirRAG (Feng et al. 2025, arXiv 2501.10053).
"""

from collections.abc import Sequence

from askance.eval.metrics.normalisations import WordForm
from askance.eval.metrics.overlap import best_overlap


def f1(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """From 0 to 1, the best over the golds; nothing where the normalisation ignores every gold.

    0 where both sides have no words left, though they match exactly; SQuAD's second version says 1 there.
    "river Rhine" against "Rhine": precision 1/2, recall 1.

    >>> round(f1("the river Rhine", ["the Rhine"]), 3)
    0.667
    """
    return best_overlap(prediction, golds, normalisation, _harmonic_mean)


def _harmonic_mean(shared: int, predicted: int, gold: int) -> float:
    return 2 * shared / (predicted + gold)
