"""Accuracy on closed sets: whether the option that is named first is the right one.

Self-RAG (Asai et al. 2023, arXiv 2310.11511) for PubHealth and ARC-Challenge.
"""

from askance.eval.datasets import Example
from askance.text.options import named_option


def choice_accuracy(prediction: str, example: Example) -> float | None:
    """1 or 0; an answer that names no option is wrong. Nothing where the question has no options.

    Of the choice between "A: iron" and "B: gold", gold is named by "B", "(B)", "B.", "B: gold" and "Gold"; of
    true and false, by the words as well as by SUPPORTS and REFUTES (`text.options.named_option`).

    Deviation: the authors' code looks for the gold anywhere in the output, letter case and all, so that a
    capital A anywhere is the answer A (metric `match`).

    >>> from askance.core.types import Question
    >>> question = Question("q", "Which one rusts?", "choice", ("A: iron", "B: gold"))
    >>> choice_accuracy("(A)", Example(question, ("A: iron", "iron")))
    1.0
    """
    options = example.question.options
    right = set(options).intersection(example.golds)
    return float(named_option(prediction, options) in right) if right else None
