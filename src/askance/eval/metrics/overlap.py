"""Words that an answer shares with an accepted one: what F1, precision and recall are made of."""

from collections import Counter
from collections.abc import Sequence

from askance.text.answers import normalise_answer

_ALL_OR_NOTHING = ("yes", "no", "noanswer")


def shared_words(prediction: str, golds: Sequence[str]) -> list[tuple[int, int, int]]:
    """(shared, predicted, gold) words per gold, as multisets, after `normalise_answer`; shared is never 0.

    Golds without a shared word are left out, and so are those of which either side is yes, no or noanswer
    and the other is not the same: "no" shares nothing with "no one".
    """
    predicted = normalise_answer(prediction)
    return [
        counts
        for gold in map(normalise_answer, golds)
        if predicted == gold or not {predicted, gold} & set(_ALL_OR_NOTHING)
        if (counts := _counts(predicted.split(), gold.split()))[0]
    ]


def _counts(predicted: list[str], gold: list[str]) -> tuple[int, int, int]:
    return (Counter(predicted) & Counter(gold)).total(), len(predicted), len(gold)
