"""Citation recall and precision: whether an answer cites the documents that it follows from.

Both read supporting facts, as HotpotQA (Yang et al. 2018, arXiv 1809.09600) names them, by title. ALCE (Gao
et al. 2023, arXiv 2305.14627) has measures of the same names: the share of sentences that a language model
finds entailed by what they cite, and the share of citations without which it would not. These read no text
and need no model.
"""

from collections.abc import Iterable

from askance.core.types import Citation
from askance.eval.datasets import Example


def citation_precision(citations: Iterable[Citation], example: Example) -> float | None:
    """The share of the cited passages that come from documents the answer follows from, from 0 to 1.

    A passage counts once, however often it is cited. Nothing where no titles are known. An answer that cites
    nothing has 0, as in ALCE, so that every method is measured on the same questions. Supporting "Fidelio"
    and "Bonn", cited two passages of "Fidelio" and one of "Tosca": 2/3.
    """
    if not example.supporting_titles:
        return None
    titles = {citation.passage.id: citation.passage.title for citation in citations}.values()
    return sum(title in example.supporting_titles for title in titles) / len(titles) if titles else 0.0


def citation_recall(citations: Iterable[Citation], example: Example) -> float | None:
    """The share of the documents an answer follows from that it cites, from 0 to 1.

    Nothing where no titles are known. Supporting "Fidelio" and "Bonn", cited two passages of "Fidelio" and
    one of "Tosca": 1/2.
    """
    wanted = set(example.supporting_titles)
    cited = {citation.passage.title for citation in citations}
    return len(wanted & cited) / len(wanted) if wanted else None
