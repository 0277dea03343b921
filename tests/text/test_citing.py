import doctest

import pytest

from askance.core.answers import Answer, Citation
from askance.core.types import Passage
from askance.text import support
from askance.text.support import CitedSentence, cited_passages, cited_sentences, marked, unmarked

BONN, RHINE, TOSCA = (Passage(name, name.title(), f"{name}.") for name in ("bonn", "rhine", "tosca"))
TEXT = "Bonn is old. It lies on the Rhine! Who knows why"


def test_worked_example():
    results = doctest.testmod(support)
    assert (results.attempted, results.failed) == (1, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is [1].", "It is."),
        ("It is.[1][12] So.", "It is. So."),
        ("In [1949] it was", "In [1949] it was"),
        ("[1]", ""),
        ("none", "none"),
    ],
)
def test_markers_are_left_out(text, expected):
    assert unmarked(text) == expected


def answer(*spans, text=TEXT):
    return Answer(text, "", tuple(Citation(number, passage, *span) for number, passage, span in spans))


def test_a_sentence_cites_what_overlaps_it():
    found = answer((2, RHINE, (13, 34)), (1, BONN, (5, 20)), (2, RHINE, (14, 16)), (3, TOSCA, (12, 13)))
    assert cited_sentences(found) == (
        CitedSentence("Bonn is old.", (BONN,)),
        CitedSentence("It lies on the Rhine!", (BONN, RHINE)),
        CitedSentence("Who knows why", ()),
    )
    assert cited_passages(found) == (BONN, RHINE, TOSCA)


def test_markers_stand_before_the_stop_and_count_from_one():
    found = answer((7, RHINE, (13, 34)), (4, BONN, (0, 48)))
    assert marked(found) == "Bonn is old [1]. It lies on the Rhine [1][2]! Who knows why [1]"
    assert cited_passages(found) == (BONN, RHINE)


def test_markers_of_the_text_give_way():
    text = 'It is "old [9]."\nIt lies on the Rhine. [2]'
    at = text.index("It lies")
    assert marked(answer((9, BONN, (0, 16)), (12, RHINE, (at, at + 21)), text=text)) == (
        'It is "old [1]." It lies on the Rhine [2].'
    )


def test_an_answer_without_citations_or_text():
    assert marked(answer()) == TEXT
    assert marked(Answer("")) == ""
    assert cited_sentences(Answer(" [1] ")) == ()
    assert cited_passages(answer()) == ()
