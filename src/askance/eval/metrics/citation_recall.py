"""Citation recall: the share of the documents an answer follows from that it cites.

Against supporting facts, as HotpotQA (Yang et al. 2018, arXiv 1809.09600) names them, by title. ALCE (Gao et
al. 2023, arXiv 2305.14627) has a measure of the same name: the share of sentences that a language model
finds entailed by what they cite. This one reads no text and needs no model.
"""

from collections.abc import Iterable

from askance.core.types import Citation
from askance.eval.datasets import Example


def citation_recall(citations: Iterable[Citation], example: Example) -> float | None:
    """From 0 to 1; nothing where no titles are known.

    Supporting "Fidelio" and "Bonn", cited two passages of "Fidelio" and one of "Tosca": 1/2.
    """
    wanted = set(example.supporting_titles)
    cited = {citation.passage.title for citation in citations}
    return len(wanted & cited) / len(wanted) if wanted else None
