"""What opening sentences tell in a set form, and the records that are made of it."""

import random

import pytest
from lab.tests.training.reader.sample_examples import FILM, PISA

from askance.evaluation.datasets.example import Paragraph, SupportingFacts, Triple
from recipes.reader.composed_questions import comparisons
from recipes.reader.lead_paragraphs import lead_facts, lead_records


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Ada Doe (1 May 1900 – 2 June 1980) was a Danish painter. She was born in Rome.",
            {"date of birth": "1 May 1900", "date of death": "2 June 1980",
             "country of citizenship": "Danish"},
        ),
        (
            "Ada Doe( May 1, 1900 in Rome - June 2, 1980) was an American singer.",
            {"date of birth": "May 1, 1900", "date of death": "June 2, 1980",
             "country of citizenship": "American"},
        ),
        ("Ada Doe (born 1 May 1990 in Rome) is the mayor.", {"date of birth": "1 May 1990"}),
        ("Ada Doe (born 1990) is a Danish painter.", {}),
        ("Ada Doe (1 May 1900 – ?) was a painter. Bob (1 May 1900 – 2 June 1980) was not.", {}),
        ("Ada Doe was a Danish painter (1 May 1900).", {}),
        (
            "Storm is a 1936 Danish drama film directed by Bob Roe and starring Ada Doe. It ran long.",
            {"publication date": "1936"},
        ),
        (
            "Storm is a 1936 film directed by J. B. Roe.",
            {"publication date": "1936"},
        ),
        ("Storm is a 1936 film directed by Bob Roe and Al Poe.", {"publication date": "1936"}),
        ("Storm is a film. Rain is a 1936 film directed by Bob Roe.", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_an_opening_in_a_set_form_tells_facts(text, told):
    found = lead_facts(Paragraph("Storm (film)", text))
    assert {fact.relation: fact.object for fact in found} == told
    assert all(fact.subject == "Storm (film)" and fact.object in text for fact in found)


def person(name, year):
    return Paragraph(name, f"{name} (born 1 May {year}) is a Danish painter. {name} paints the sea.")


def test_paragraphs_that_no_question_needs_become_records():
    others = tuple(person(f"Ada {letter}", 1900 + at) for at, letter in enumerate("ABCDEF"))
    supporting_facts = SupportingFacts(
        (*FILM.supporting_facts.supporting, PISA, *others), FILM.supporting_facts.triples
    )
    records = lead_records(
        (type(FILM)(FILM.question, FILM.golds, supporting_facts=supporting_facts),), random.Random(0)
    )
    assert [record.supporting_facts.supporting[0].title for record in records] == [
        each.title for each in others
    ]
    for record in records:
        (needed,) = record.supporting_facts.supporting
        assert needed.evidence_texts == (needed.text.partition(". ")[0] + ".",)
        assert Triple(needed.title, "country of citizenship", "Danish") in record.supporting_facts.triples
        assert needed.title not in {
            each.title for each in record.supporting_facts.paragraphs if not each.is_supporting
        }


def test_they_are_compared_with_each_other():
    others = tuple(person(f"Ada {letter}", 1900 + at) for at, letter in enumerate("ABCDEF"))
    supporting_facts = SupportingFacts(
        (*FILM.supporting_facts.paragraphs, *others), FILM.supporting_facts.triples
    )
    records = lead_records(
        (type(FILM)(FILM.question, FILM.golds, supporting_facts=supporting_facts),), random.Random(0)
    )
    for example in comparisons(records, 60, random.Random(0)):
        names = sorted(each.title for each in example.supporting_facts.supporting)
        assert len(names) == 2
        if example.golds[0] not in ("yes", "no"):
            wants_first = any(word in example.question.text for word in ("first", "earlier", "older"))
            assert example.golds[0] == (names[0] if wants_first else names[1])
