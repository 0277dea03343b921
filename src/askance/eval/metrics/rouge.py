"""ROUGE-L and ROUGE-Lsum: longest common subsequences of words, as F-measures.

Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries"; computed by the package rouge-score. Its
words are runs of digits and of the letters a to z, in lower case: other scripts have none, and "Köln" is two.
"""

from collections.abc import Sequence

from rouge_score.rouge_scorer import RougeScorer

from askance.text.citing import unmarked
from askance.text.sentences import sentences

_WHOLE, _BY_SENTENCE = RougeScorer(["rougeL"]), RougeScorer(["rougeLsum"], use_stemmer=True)


def rouge_l(text: str, golds: Sequence[str]) -> float:
    """From 0 to 1, the best over the golds, without stemming; precision and recall weigh the same.

    "Rhine flows north" is common to the two: 3 words of 4, and of 5.

    >>> round(rouge_l("The Rhine flows north.", ["Rhine: it flows north, mostly"]), 3)
    0.667
    """
    return max(float(_WHOLE.score(gold, text)["rougeL"].fmeasure) for gold in golds)


def rouge_lsum(text: str, golds: Sequence[str]) -> float:
    """From 0 to 1, the best over the golds, sentence by sentence; citation markers such as [1] are left out.

    This is the summary level of ROUGE-L, with stemming, as ASQA (Stelmakh et al. 2022, arXiv 2204.06092) and
    ALCE (Gao et al. 2023, arXiv 2305.14627) have it. Unlike in `rouge_l`, the order of sentences does not
    count: each sentence of the gold is held against all of the text's.

    Deviation: sentences are found by askance's own rules, not by NLTK's.

    >>> rouge_lsum("It opened in 1949. It fell in 1945.", ["It fell in 1945. It opened in 1949."])
    1.0
    """
    lines = _lines(unmarked(text))
    return max(float(_BY_SENTENCE.score(_lines(gold), lines)["rougeLsum"].fmeasure) for gold in golds)


def _lines(text: str) -> str:
    return "\n".join(sentences(text))
