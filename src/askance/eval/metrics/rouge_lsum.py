"""ROUGE-Lsum: the longest common subsequences of words sentence by sentence, as an F-measure.

Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", its summary level; computed by the package
rouge-score with stemming, as ASQA (Stelmakh et al. 2022, arXiv 2204.06092) and ALCE (Gao et al. 2023, arXiv
2305.14627) have it. Words are those of `rouge_l`.
"""

from collections.abc import Sequence

from rouge_score.rouge_scorer import RougeScorer

from askance.text.citing import unmarked
from askance.text.sentences import sentences

_SCORER = RougeScorer(["rougeLsum"], use_stemmer=True)


def rouge_lsum(text: str, golds: Sequence[str]) -> float:
    """From 0 to 1, the best over the golds; citation markers such as [1] are left out.

    Unlike in `rouge_l`, the order of sentences does not count: each sentence of the gold is held against all
    of the text's.

    Deviation: sentences are found by askance's own rules, not by NLTK's.

    >>> rouge_lsum("It opened in 1949. It fell in 1945.", ["It fell in 1945. It opened in 1949."])
    1.0
    """
    lines = "\n".join(sentences(unmarked(text)))
    return max(
        float(_SCORER.score("\n".join(sentences(gold)), lines)["rougeLsum"].fmeasure) for gold in golds
    )
