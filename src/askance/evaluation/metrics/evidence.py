"""Metrics of evidence: were the supporting documents found, and are they cited?

These metrics compare the titles of documents, character by character, with supporting titles such as those of
HotpotQA (Yang et al. 2018, arXiv 1809.09600). The metrics do not apply if a dataset has no supporting titles.
ALCE (Gao et al. 2023, arXiv 2305.14627) has citation metrics with the same names, for which a model judges
entailment (`evaluation.judging.citations`). The metrics here read no text and need no model.
"""

from collections.abc import Iterable

from askance.core.answers import Citation
from askance.core.trace import AnyEvent, Searched
from askance.evaluation.datasets import Example


def citation_precision(citations: Iterable[Citation], example: Example) -> float | None:
    """Return the fraction of the cited passages that come from supporting documents, from 0 to 1.

    A passage counts once, however often it is cited. An answer without citations has precision 0, as in ALCE,
    so every method is measured on the same questions. If the supporting documents are "Fidelio" and "Bonn",
    and the answer cites two passages of "Fidelio" and one of "Tosca", precision is 2/3.
    """
    if not example.supporting_titles:
        return None
    titles = {citation.passage.id: citation.passage.title for citation in citations}.values()
    return sum(title in example.supporting_titles for title in titles) / len(titles) if titles else 0.0


def citation_recall(citations: Iterable[Citation], example: Example) -> float | None:
    """Return the fraction of the supporting documents that the answer cites, from 0 to 1.

    If the supporting documents are "Fidelio" and "Bonn", and the answer cites two passages of "Fidelio" and
    one of "Tosca", recall is 1/2.
    """
    wanted = set(example.supporting_titles)
    cited = {citation.passage.title for citation in citations}
    return len(wanted & cited) / len(wanted) if wanted else None


def supporting_recall(
    events: Iterable[AnyEvent], example: Example, *, first: int | None = None
) -> float | None:
    """Return the fraction of the supporting documents that the searches of a trace found, from 0 to 1.

    This is document-level recall over all searches of a question. If the supporting documents are "Fidelio"
    and "Bonn", and the searches found "Fidelio" and "Tosca", recall is 1/2.

    Args:
        first: The number of distinct passages to consider, counted over all searches in order; None for all.
    """
    hits = (hit for event in events if isinstance(event, Searched) for hit in event.hits)
    titles = list({hit.passage.id: hit.passage.title for hit in hits}.values())[:first]
    wanted = set(example.supporting_titles)
    return len(wanted.intersection(titles)) / len(wanted) if wanted else None
