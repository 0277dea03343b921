"""Questions that the recipe composes: their facts, their sentences and what follows from them."""

import random
from dataclasses import replace

import pytest
from lab.tests.training.reader.sample_examples import ARGON, FILM, PISA, TOWER

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts, Triple
from askance_lab.training.actions.noun_phrases import noun_phrase
from askance_lab.training.actions.relations import (
    is_same_name,
    without_parentheses,
)
from askance_lab.training.reader.answer_examples import gold_reasoning
from recipes.reader.bridge_questions import MAX_PER_BRIDGE, bridge_questions
from recipes.reader.composed_questions import with_sentences
from recipes.reader.lead_paragraphs import lead_facts, lead_records
from recipes.reader.statements import as_sentence, compare_dates, conclusions


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        ("Who composed Carmen?", "the one who composed Carmen"),
        ("Who was the first mayor of Pisa?", "the first mayor of Pisa"),
        ("What is the name of the river in Pisa?", "the river in Pisa"),
        ("What is the longest river of Italy ?", "the longest river of Italy"),
        ("Which river flows through Pisa?", "the river that flows through Pisa"),
        ("What Italian town has a leaning tower?", ""),
        ("What kind of tower leans over Pisa?", "the kind of tower that leans over Pisa"),
        ("Where was Galileo Galilei born?", "the place where Galileo Galilei was born"),
        ("Where does the Arno rise?", ""),
        ("Which river does Pisa lie on?", ""),
        ("What is the river in Pisa called?", ""),
        ("When was Pisa founded?", ""),
        ("In Pisa, who built the tower?", ""),
    ],
)
def test_a_question_becomes_what_it_asks_for(question, phrase):
    assert noun_phrase(question) == phrase


def asked(id, question, answer, text):
    at = text.index(answer)
    start, end = text.rfind(".", 0, at) + 1, text.index(".", at) + 1
    paragraph = Paragraph("T", text, ((start, end),))
    return Example(Question(id, question), (answer,), ("T",), "answerable", 1, SupportingFacts((paragraph,)))


LEAD = asked("a", "Who composed Carmen?", "Georges Bizet", "Carmen is an opera. Georges Bizet composed it.")
DIED = asked("b", "Where did Georges Bizet die?", "Bougival", "Georges Bizet died in Bougival. He was 36.")
OTHER = asked("c", "How tall is it?", "56 metres", "The tower of Pisa is 56 metres tall.")


def test_the_name_in_one_question_gives_way_to_the_other_question():
    (example,) = bridge_questions((LEAD, DIED, OTHER), random.Random(0))
    assert example.question.text == "Where did the one who composed Carmen die?"
    assert example.golds == ("Bougival",)
    assert gold_reasoning(example).text == (
        "The one who composed Carmen is Georges Bizet. Georges Bizet died in Bougival. "
        "So the answer is Bougival."
    )
    assert example.hops == 2
    shown = [each.is_supporting for each in example.supporting_facts.paragraphs]
    assert sorted(shown) == [False, True, True]


@pytest.mark.parametrize(
    "question",
    [
        "Where did Georges Bizet Street end?",
        "Where did Saint Georges Bizet die?",
        "Where did Georges Bizet-Halle start?",
        "What do Georges Bizet operas begin with?",
        "Where did Bizet die?",
        "What did Georges Bizet compose?",
    ],
)
def test_a_part_of_a_longer_name_is_no_bridge_and_no_question_gives_the_other_answer_away(question):
    answer = "Carmen" if "compose" in question else "Paris"
    other = asked("b", question, answer, f"It was in {answer}.")
    assert bridge_questions((LEAD, other), random.Random(0)) == ()


def test_one_name_is_not_all_there_is():
    many = [
        asked(
            f"b{at}", f"Where was Georges Bizet in 18{at + 50}?", f"Town {at}", f"He was in Town {at} then."
        )
        for at in range(3 * MAX_PER_BRIDGE)
    ]
    made = bridge_questions((LEAD, *many), random.Random(0))
    assert len(made) == MAX_PER_BRIDGE
    assert made == bridge_questions((LEAD, *many), random.Random(0))
    assert made != bridge_questions((LEAD, *many), random.Random(1))


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


@pytest.mark.parametrize(
    ("relation", "object", "told"),
    [
        ("director", "Allan Dwan", "The director of Heidi is Allan Dwan."),
        ("date of birth", "3 April 1885", "Heidi was born on 3 April 1885."),
        ("date of birth", "1885", "Heidi was born in 1885."),
        ("date of death", "May 1885", "Heidi died in May 1885."),
        ("country of citizenship", "Swiss", "The nationality of Heidi is Swiss."),
        ("employer", "Acme Inc.", "Heidi worked at Acme Inc."),
        ("voice type", "alto", "The voice type of Heidi is alto."),
    ],
)
def test_a_fact_is_one_sentence(relation, object, told):
    assert as_sentence(Triple("Heidi (1937 film)", relation, object)) == told


@pytest.mark.parametrize(
    ("name", "without"),
    [("Fury (1936 film)", "Fury"), ("(500) Days", "Days"), ("Fury (German: Zorn", "Fury"), ("(x)", "(x)")],
)
def test_what_stands_in_parentheses_is_no_part_of_a_name(name, without):
    assert without_parentheses(name) == without
    assert is_same_name(name, without.upper())


def test_facts_come_first_then_plain_facts_then_the_evidence_unless_it_is_long():
    assert gold_reasoning(with_sentences(FILM)).text == (
        "The director of Heidi is Allan Dwan. Allan Dwan was born on 3 April 1885. "
        "So the answer is 3 April 1885."
    )
    assert gold_reasoning(ARGON).text == "Argon is a gas. Gases can't be chewed. So the answer is no."
    assert gold_reasoning(replace(TOWER, golds=("Acme Inc.",))).conclusion == "So the answer is Acme Inc."
    assert gold_reasoning(TOWER).text == "Pisa lies on the Arno. So the answer is Arno."
    long = "Pisa " + "very " * 40 + "much lies on the Arno."
    example = Example(
        Question("p", "?"),
        ("Arno",),
        hops=1,
        supporting_facts=SupportingFacts((Paragraph("Pisa", long, ((0, len(long)),)),)),
    )
    assert gold_reasoning(example).text == "So the answer is Arno."


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
