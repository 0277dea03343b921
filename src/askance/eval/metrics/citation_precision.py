"""Citation precision: the share of the cited passages that come from documents the answer follows from.

Against supporting facts, as HotpotQA (Yang et al. 2018, arXiv 1809.09600) names them, by title. ALCE (Gao et
al. 2023, arXiv 2305.14627) has a measure of the same name: the share of citations without which a language
model would not find their sentence entailed. This one reads no text and needs no model.
"""

from collections.abc import Iterable

from askance.core.types import Citation
from askance.eval.datasets import Example


def citation_precision(citations: Iterable[Citation], example: Example) -> float | None:
    """From 0 to 1; a passage counts once, however often it is cited. Nothing where no titles are known.

    An answer that cites nothing has 0, as in ALCE, so that every method is measured on the same questions.
    Supporting "Fidelio" and "Bonn", cited two passages of "Fidelio" and one of "Tosca": 2/3.
    """
    if not example.supporting_titles:
        return None
    titles = {citation.passage.id: citation.passage.title for citation in citations}.values()
    return sum(title in example.supporting_titles for title in titles) / len(titles) if titles else 0.0
