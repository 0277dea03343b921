"""ROUGE-L: the longest common subsequence of words, as an F-measure.

Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries"; computed by the package rouge-score,
without stemming. Its words are runs of digits and of the letters a to z, in lower case: other scripts have
none, and "Köln" is two.
"""

from collections.abc import Sequence

from rouge_score.rouge_scorer import RougeScorer

_SCORER = RougeScorer(["rougeL"])


def rouge_l(text: str, golds: Sequence[str]) -> float:
    """From 0 to 1, the best over the golds; precision and recall weigh the same.

    "Rhine flows north" is common to the two: 3 words of 4, and of 5.

    >>> round(rouge_l("The Rhine flows north.", ["Rhine: it flows north, mostly"]), 3)
    0.667
    """
    return max(float(_SCORER.score(gold, text)["rougeL"].fmeasure) for gold in golds)
