"""Supporting-title recall: how many of the documents an answer follows from were found at all.

Recall of supporting facts at the level of documents, over everything a method searched for; HotpotQA (Yang et
al. 2018, arXiv 1809.09600) names the facts.
"""

from collections.abc import Iterable

from askance.core.trace import AnyEvent, Searched
from askance.eval.datasets import Example


def supporting_recall(
    events: Iterable[AnyEvent], example: Example, *, first: int | None = None
) -> float | None:
    """The share of supporting titles among the passages that the searches of a trace returned.

    Titles are compared character by character. Where the dataset names none, there is nothing to measure.
    Supporting "Fidelio" and "Bonn", found "Fidelio", "Tosca": 1/2.

    Args:
        first: look at the first so many different passages only, counted over all searches in their order.
    """
    hits = (hit for event in events if isinstance(event, Searched) for hit in event.hits)
    titles = list({hit.passage.id: hit.passage.title for hit in hits}.values())[:first]
    wanted = set(example.supporting_titles)
    return len(wanted.intersection(titles)) / len(wanted) if wanted else None
