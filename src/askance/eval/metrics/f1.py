"""F1, and the precision and recall it is made of, over words as multisets.

SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250); yes and no as in HotpotQA (Yang et al. 2018, arXiv
1809.09600), DRAGIN and AirRAG (Feng et al. 2025, arXiv 2501.10053).
"""

from collections import Counter
from collections.abc import Callable, Sequence

from askance.eval.metrics.normalisations import NORMALISATIONS, WordForm

_ALL_OR_NOTHING = {"yes", "no", "noanswer"}


def f1(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """The harmonic mean of precision and recall, from 0 to 1, the best over the golds.

    Nothing where the normalisation ignores every gold. 0 where both sides have no words left, though they
    match exactly; SQuAD's second version says 1 there. "river Rhine" against "Rhine": precision 1/2,
    recall 1.

    >>> round(f1("the river Rhine", ["the Rhine"]), 3)
    0.667
    """
    return _best(prediction, golds, normalisation, lambda shared, num, of_gold: 2 * shared / (num + of_gold))


def precision(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """The share of the answer's words that are in an accepted answer, from 0 to 1.

    It is the best over the golds; that need not be the gold that recall or F1 is best for. Nothing where the
    normalisation ignores every gold. "river Rhine" against "Rhine": one word of two.

    >>> precision("the river Rhine", ["the Rhine"])
    0.5
    """
    return _best(prediction, golds, normalisation, lambda shared, num, of_gold: shared / num)


def recall(prediction: str, golds: Sequence[str], normalisation: WordForm = "dragin") -> float | None:
    """The share of an accepted answer's words that are in the answer, from 0 to 1.

    It is the best over the golds; that need not be the gold that precision or F1 is best for. Nothing where
    the normalisation ignores every gold. "Ada" against "Ada Lovelace": one word of two.

    >>> recall("Ada", ["Ada Lovelace"])
    0.5
    """
    return _best(prediction, golds, normalisation, lambda shared, num, of_gold: shared / of_gold)


def _best(
    prediction: str, golds: Sequence[str], normalisation: WordForm, share: Callable[[int, int, int], float]
) -> float | None:
    """The best of `share(shared, predicted, gold)` over the golds, which takes numbers of words.

    0 for a gold without a shared word, and where either side is yes, no or noanswer and the other is not the
    same: "no" shares nothing with "no one". Nothing where the normalisation ignores every gold.
    """
    form = NORMALISATIONS[normalisation]
    predicted, accepted = form.normal_form(prediction), form.accepted(golds)
    if not accepted:
        return None
    best = 0.0
    for gold in accepted:
        words, gold_words = predicted.split(), gold.split()
        num_shared = (Counter(words) & Counter(gold_words)).total()
        if num_shared and (predicted == gold or not {predicted, gold} & _ALL_OR_NOTHING):
            best = max(best, share(num_shared, len(words), len(gold_words)))
    return best
