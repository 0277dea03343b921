"""Words that an answer shares with an accepted one: what F1, precision and recall are made of."""

from collections import Counter
from collections.abc import Callable, Sequence

from askance.eval.metrics.normalisations import NORMALISATIONS, WordForm

_ALL_OR_NOTHING = ("yes", "no", "noanswer")


def best_overlap(
    prediction: str,
    golds: Sequence[str],
    normalisation: WordForm,
    share: Callable[[int, int, int], float],
) -> float | None:
    """The best of `share(shared, predicted, gold)` over the golds, words counted as multisets.

    0 for a gold without a shared word, and where either side is yes, no or noanswer and the other is not the
    same: "no" shares nothing with "no one". Nothing where the normalisation ignores every gold.
    """
    form = NORMALISATIONS[normalisation]
    predicted, accepted = form.normal_form(prediction), form.accepted(golds)
    if not accepted:
        return None
    counts = [_counts(predicted.split(), gold.split()) for gold in accepted if _comparable(predicted, gold)]
    return max((share(*of_gold) for of_gold in counts if of_gold[0]), default=0.0)


def _comparable(predicted: str, gold: str) -> bool:
    return predicted == gold or not {predicted, gold} & set(_ALL_OR_NOTHING)


def _counts(predicted: list[str], gold: list[str]) -> tuple[int, int, int]:
    return (Counter(predicted) & Counter(gold)).total(), len(predicted), len(gold)
