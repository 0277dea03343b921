"""A metric of one's own: is the answer short?"""

from collections.abc import Sequence


def brevity(prediction: str, golds: Sequence[str]) -> float | None:
    """Return 1 for an answer of at most five words, otherwise 0.

    >>> brevity("The Rhine", ["Rhine"])
    1.0
    """
    return float(0 < len(prediction.split()) <= 5)
