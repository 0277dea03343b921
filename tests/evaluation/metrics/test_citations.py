import pytest

from askance.core.answers import Citation
from askance.core.types import Passage, Question
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.answers import citation_precision, citation_recall
from tests.tolerances import near

EXAMPLE = Example(Question("q", "Which river?"), ("Rhine",), ("Fidelio", "Bonn"))


def cited(*passages):
    """Citations of passages, each named "title/number of the passage"."""
    numbers = {}
    return tuple(
        Citation(numbers.setdefault(id, len(numbers) + 1), Passage(id, id.partition("/")[0], "…"), at, at + 1)
        for at, id in enumerate(passages)
    )


@pytest.mark.parametrize(
    ("citations", "precision", "recall"),
    [
        (cited("Fidelio/1", "Fidelio/2", "Tosca/1"), 2 / 3, 1 / 2),
        (cited("Fidelio/1", "Fidelio/1", "Tosca/1"), 1 / 2, 1 / 2),
        (cited("Bonn/1", "Fidelio/1"), 1, 1),
        (cited("Tosca/1", "bonn/1"), 0, 0),
        ((), 0, 0),
    ],
)
def test_against_supporting_titles(citations, precision, recall):
    assert citation_precision(citations, EXAMPLE) == near(precision)
    assert citation_recall(citations, EXAMPLE) == recall


def test_nothing_where_no_title_is_known():
    unknown = Example(EXAMPLE.question, EXAMPLE.golds)
    assert citation_precision(cited("Bonn/1"), unknown) is None
    assert citation_recall(cited("Bonn/1"), unknown) is None
