"""Whether the documents that an answer follows from were found, and are cited.

All of them read supporting facts, as HotpotQA (Yang et al. 2018, arXiv 1809.09600) names them, by title,
compared character by character. Where a dataset names none, there is nothing to measure. ALCE (Gao et al.
2023, arXiv 2305.14627) has measures of citations with the same names: the share of sentences that a language
model finds entailed by what they cite, and the share of citations without which it would not. These read no
text and need no model.
"""

from collections.abc import Iterable

from askance.core.trace import AnyEvent, Searched
from askance.core.types import Citation
from askance.evaluation.datasets import Example


def citation_precision(citations: Iterable[Citation], example: Example) -> float | None:
    """The share of the cited passages that come from documents the answer follows from, from 0 to 1.

    A passage counts once, however often it is cited. An answer that cites
    nothing has 0, as in ALCE, so that every method is measured on the same questions. Supporting "Fidelio"
    and "Bonn", cited two passages of "Fidelio" and one of "Tosca": 2/3.
    """
    if not example.supporting_titles:
        return None
    titles = {citation.passage.id: citation.passage.title for citation in citations}.values()
    return sum(title in example.supporting_titles for title in titles) / len(titles) if titles else 0.0


def citation_recall(citations: Iterable[Citation], example: Example) -> float | None:
    """The share of the documents an answer follows from that it cites, from 0 to 1.

    Supporting "Fidelio" and "Bonn", cited two passages of "Fidelio" and
    one of "Tosca": 1/2.
    """
    wanted = set(example.supporting_titles)
    cited = {citation.passage.title for citation in citations}
    return len(wanted & cited) / len(wanted) if wanted else None


def supporting_recall(
    events: Iterable[AnyEvent], example: Example, *, first: int | None = None
) -> float | None:
    """The share of supporting titles among the passages that the searches of a trace returned.

    It is recall at the level of documents, over everything a method searched for. Supporting "Fidelio" and
    "Bonn", found "Fidelio", "Tosca": 1/2.

    Args:
        first: look at the first so many different passages only, counted over all searches in their order.
    """
    hits = (hit for event in events if isinstance(event, Searched) for hit in event.hits)
    titles = list({hit.passage.id: hit.passage.title for hit in hits}.values())[:first]
    wanted = set(example.supporting_titles)
    return len(wanted.intersection(titles)) / len(wanted) if wanted else None
