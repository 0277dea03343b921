"""Accuracy on yes-or-no questions.

StrategyQA (Geva et al. 2021, arXiv 2101.02235), DRAGIN.
"""

from collections.abc import Sequence

from askance.text.answers import normalise_answer


def yes_no_accuracy(prediction: str, golds: Sequence[str]) -> float | None:
    """1 if the answer is the gold's yes or no, 0 if it is anything else; nothing where the gold is neither.

    >>> yes_no_accuracy("Yes.", ["yes"]), yes_no_accuracy("", ["no"]), yes_no_accuracy("yes", ["Bonn"])
    (1.0, 0.0, None)
    """
    known = {normalise_answer(gold) for gold in golds}
    return float(normalise_answer(prediction) in known) if known in ({"yes"}, {"no"}) else None
