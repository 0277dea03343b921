"""What follows from two facts of one kind."""

from dataclasses import replace

import pytest
from lab.tests.training.reader.sample_examples import FILM

from askance.evaluation.datasets.example import SupportingFacts, Triple
from askance_lab.training.reader.answer_examples import gold_reasoning
from recipes.reader.composed_questions import with_sentences
from recipes.reader.statements import compare_dates, conclusions

HEIDI, FURY = Triple("Heidi (film)", "director", "Allan Dwan"), Triple("Fury", "director", "Fritz Lang")
DWAN, LANG = (
    Triple("Allan Dwan", "date of birth", "3 April 1885"),
    Triple("Fritz Lang", "date of birth", "December 5, 1890"),
)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("5 May 1900", "1901", ["1900 is before 1901."]),
        ("7 June 1902", "5 May 1900", ["1902 is after 1900."]),
        ("June 1900", "5 May 1900", ["June 1900 is after 5 May 1900."]),
        ("May 5, 1900", "6 May 1900", ["May 5, 1900 is before 6 May 1900."]),
        ("1900", "5 May 1900", []),
        ("long ago", "1900", []),
        ("356 BC", "1900", []),
        ("20 July 356 B.C.", "323 BCE", []),
    ],
)
def test_dates_are_compared_as_far_as_they_are_told(one, other, told):
    assert compare_dates(one, other) == told


@pytest.mark.parametrize(
    ("answer", "so"),
    [
        ("Heidi", ", so Allan Dwan was born earlier."),
        ("Fury", ", so Fritz Lang was born later."),
        ("FURY (1936 film)", ", so Fritz Lang was born later."),
        ("Metropolis", "."),
    ],
)
def test_the_one_that_is_asked_for_is_named_by_what_it_is(answer, so):
    """By the person whose date it is, and how it stands to the other; not for another kind of answer."""
    assert conclusions((HEIDI, DWAN, FURY, LANG), answer) == [f"1885 is before 1890{so}"]
    assert conclusions((FURY, LANG, HEIDI, DWAN), answer) == [f"1890 is after 1885{so}"]


def test_the_conclusion_stands_behind_the_facts():
    dates = (Triple("A", "date of death", "1900"), Triple("B", "date of death", "1910"))
    example = replace(FILM, golds=("B",), supporting_facts=SupportingFacts(triples=dates))
    assert gold_reasoning(with_sentences(example)).text == (
        "A died in 1900. B died in 1910. 1900 is before 1910, so B died later. So the answer is B."
    )


@pytest.mark.parametrize(
    ("relation", "one", "other", "answer", "told"),
    [
        ("country of citizenship", "Swiss", "Swiss", "yes", ["Swiss and Swiss are the same."]),
        ("country", "U.S.", "America", "Yes", ["U.S. and America are the same."]),
        ("country of origin", "France", "Italy", "no", ["France and Italy differ."]),
        ("country", "France", "Italy", "France", []),
        ("father", "France", "Italy", "no", []),
    ],
)
def test_countries_are_the_same_where_the_dataset_says_so(relation, one, other, answer, told):
    assert conclusions((Triple("A", relation, one), Triple("B", relation, other)), answer) == told


def test_dates_of_two_kinds_and_of_one_thing_are_not_compared():
    birth, death = Triple("A", "date of birth", "1900"), Triple("A", "date of death", "1950")
    other = Triple("B", "date of death", "1960")
    assert conclusions((birth, death), "A") == []
    assert conclusions((birth, other), "A") == []
