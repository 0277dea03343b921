"""STR-EM: how many of the things that a long answer has to tell occur in it.

ASQA (Stelmakh et al. 2022, arXiv 2204.06092) and ALCE (Gao et al. 2023, arXiv 2305.14627).
"""

from askance.eval.datasets import Example
from askance.text.answers import normalise_answer
from askance.text.citing import unmarked


def str_em(text: str, example: Example) -> float | None:
    """From 0 to 1: the share of answer groups of which a short answer occurs in the text.

    Both sides are normalised, and citation markers such as [1] left out. Nothing where there are no groups,
    or normalisation leaves nothing of them.

    Deviations from ALCE's code: it reads the first line only; here a text may have several. A short answer of
    which normalisation leaves nothing occurs in every text there; here it is ignored.

    >>> from askance.core.types import Question
    >>> groups = ("1898",), ("12 November 1949", "1949")
    >>> example = Example(Question("q", "When was the bridge opened?"), ("1898",), answer_groups=groups)
    >>> str_em("The old bridge was opened in 1898 [1].", example)
    0.5
    """
    normal = normalise_answer(unmarked(text))
    groups = [[form for form in map(normalise_answer, group) if form] for group in example.answer_groups]
    told = [any(form in normal for form in group) for group in groups if group]
    return sum(told) / len(told) if told else None
