"""From what a dataset tells to the sentences that are learned."""

from dataclasses import replace

import pytest
from lab.tests.training.reader.sample_examples import ARGON, FILM, TOWER

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts, Triple
from askance_lab.training.actions.relations import (
    in_chain_order,
    is_same_name,
    object_description,
    questions,
    without_parentheses,
)
from askance_lab.training.reader.answer_examples import gold_reasoning
from recipes.reader.composed_questions import with_sentences
from recipes.reader.statements import as_sentence


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


def test_a_fact_can_be_asked_for_also_by_what_leads_to_it():
    director, birth = FILM.supporting_facts.triples
    assert questions(director) == ("Who directed Heidi?", "Who is the director of Heidi?")
    assert questions(birth, object_description(director))[0] == "When was the director of Heidi born?"
    assert questions(Triple("Rhine", "mouth", "North Sea")) == ("What is the mouth of Rhine?",)


@pytest.mark.parametrize(
    ("name", "without"),
    [("Fury (1936 film)", "Fury"), ("(500) Days", "Days"), ("Fury (German: Zorn", "Fury"), ("(x)", "(x)")],
)
def test_what_stands_in_parentheses_is_no_part_of_a_name(name, without):
    assert without_parentheses(name) == without
    assert is_same_name(name, without.upper())


def test_accents_do_not_tell_names_apart():
    assert is_same_name("Émile Chautard", "Emile Chautard (director)")
    assert not is_same_name("Emile Chautard", "Emil Chautard")


def test_chains_are_told_in_one_piece():
    a, b = Triple("A", "director", "C (director)"), Triple("B", "director", "D")
    c, d = Triple("C", "date of birth", "1900"), Triple("D", "date of birth", "1910")
    assert in_chain_order((a, b, c, d)) == (a, c, b, d)


def test_facts_of_a_knowledge_base_come_first():
    assert gold_reasoning(with_sentences(FILM)).text == (
        "The director of Heidi is Allan Dwan. Allan Dwan was born on 3 April 1885. "
        "So the answer is 3 April 1885."
    )


def test_then_plain_facts_each_closed_as_a_sentence():
    assert gold_reasoning(ARGON).sentences == (
        "Argon is a gas.",
        "Gases can't be chewed.",
        "So the answer is no.",
    )


def test_then_the_evidence_unless_it_is_long():
    assert gold_reasoning(TOWER).text == "Pisa lies on the Arno. So the answer is Arno."
    long = "Pisa " + "very " * 40 + "much lies on the Arno."
    example = Example(
        Question("p", "?"),
        ("Arno",),
        hops=1,
        supporting_facts=SupportingFacts((Paragraph("Pisa", long, ((0, len(long)),)),)),
    )
    assert gold_reasoning(example).text == "So the answer is Arno."


def test_an_answer_that_ends_in_a_full_stop_gets_no_second_one():
    assert gold_reasoning(replace(TOWER, golds=("Acme Inc.",))).conclusion == "So the answer is Acme Inc."
