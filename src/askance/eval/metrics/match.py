"""Match: whether an accepted answer occurs in the text, letter by letter.

Self-RAG (Asai et al. 2023, arXiv 2310.11511) and its code, for PopQA and TriviaQA.
"""

from collections.abc import Sequence
from typing import Literal

from askance.eval.metrics.accuracy import accuracy


def match(
    text: str, golds: Sequence[str], normalisation: Literal["raw", "normalised"] = "raw"
) -> float | None:
    """1 or 0, over the whole text, which for Self-RAG is the answer; empty golds are ignored.

    A chain of thought that merely names a gold matches, too: where methods reason, read `accuracy` instead.

    Args:
        normalisation: "raw" compares as the authors' code does, case and all; "normalised" in lower case,
            without ASCII punctuation, articles and superfluous white space, as `accuracy` does.

    >>> match("The Rhine does.", ["Rhine"]), match("The Rhine does.", ["the rhine"])
    (1.0, 0.0)
    """
    if normalisation == "normalised":
        return accuracy(text, golds)
    accepted = [gold for gold in golds if gold]
    return float(any(gold in text for gold in accepted)) if accepted else None
