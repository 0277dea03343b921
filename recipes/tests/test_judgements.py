"""Judgements on invented examples: labels that follow from what a dataset tells."""

import random
from dataclasses import replace

from lab.tests.training.reader.sample_examples import (
    ARGON,
    BOTH,
    HEIDI,
    OTHER_FILM,
    PISA,
    supporting,
    text_of,
)

from askance.core.types import Passage
from askance.evaluation.datasets.example import Paragraph, SupportingFacts, Triple
from askance.methods.selfrag.scoring import judgement_prompt
from askance_lab.training.reader.passages import PassageLimits
from recipes.reader import judgements
from recipes.tests.test_builders import FILM, WHOLE, many

HEIDI_BY_DWAN = FILM.supporting_facts.triples[0]


def test_relevance_holds_a_supporting_paragraph_against_a_distractor():
    relevant, irrelevant = judgements.relevance(FILM, BOTH, PassageLimits(), random.Random(0))
    assert (relevant.target, irrelevant.target) == ("relevant", "irrelevant")
    assert irrelevant.prompt == judgement_prompt(
        BOTH, FILM.question, "relevance", [Passage("", PISA.title, PISA.text)]
    )


def test_support_follows_from_what_a_paragraph_tells():
    facts = OTHER_FILM.supporting_facts.triples
    found = {
        (
            text_of(each.prompt).partition("Sentence: ")[2].strip("|\n"),
            "Pisa" in text_of(each.prompt),
            each.target,
        )
        for each in many(judgements.support, FILM, facts, BOTH, PassageLimits(), times=200)
    }
    assert found == {
        ("The director of Heidi is Allan Dwan.", False, "fully"),
        ("Allan Dwan was born on 3 April 1885.", False, "fully"),
        ("The director of Heidi is Allan Dwan, and Allan Dwan was born on 3 April 1885.", False, "partially"),
        ("Allan Dwan was born on 3 April 1885, and the director of Heidi is Allan Dwan.", False, "partially"),
        ("The director of Heidi is Fritz Lang.", False, "not"),
        ("Allan Dwan was born on 5 December 1890.", False, "not"),
        ("The director of Heidi is Allan Dwan.", True, "not"),
        ("Allan Dwan was born on 3 April 1885.", True, "not"),
    }


def test_a_wrong_object_is_not_always_the_same():
    """Otherwise its name alone would tell the label."""
    others = [Triple(f"Film {number}", "director", f"Person {number}") for number in range(3)]
    found = {
        text_of(each.prompt).partition("Sentence: ")[2].strip("|\n")
        for each in many(judgements.support, FILM, others, BOTH, PassageLimits(), times=200)
        if "Person" in text_of(each.prompt)
    }
    assert found == {f"The director of Heidi is Person {number}." for number in range(3)}


def test_usefulness_is_the_whole_way_half_of_it_or_another_answer():
    found = {
        (text_of(each.prompt).partition("\nAnswer: ")[2].strip("|\n"), each.target)
        for each in many(judgements.usefulness, FILM, ARGON, BOTH)
    }
    assert found == {
        (WHOLE, "5"),
        ("The director of Heidi is Allan Dwan.", "3"),
        ("Argon is a gas. Gases can't be chewed. So the answer is no.", "1"),
    }


def test_retrieval_is_due_where_no_passage_tells_the_next_fact():
    found = {
        (
            text_of(each.prompt).partition("Answer so far: ")[2].strip("|\n"),
            text_of(each.prompt).count("Dwan: "),
            each.target,
        )
        for each in many(judgements.retrieval, FILM, BOTH, PassageLimits(), times=200)
    }
    first, both = "The director of Heidi is Allan Dwan.", WHOLE.partition(" So")[0]
    assert {(so_far, target) for so_far, _, target in found} == {
        ("", "search"), ("", "continue"), (first, "search"), (first, "continue"), (both, "unneeded"),
    }  # fmt: skip
    assert all(
        (draw_passages > 0) == (target == "continue")
        for so_far, draw_passages, target in found
        if so_far == first
    )


def test_a_passage_on_something_else_does_not_tell_a_fact_by_the_same_word():
    """The film is American, too; only Dwan's own paragraph tells that he is."""
    heidi = supporting("Heidi (1937 film)", "Heidi is an American film, directed by Allan Dwan.")
    dwan = supporting("Allan Dwan", "Allan Dwan was an American director.")
    triples = (HEIDI_BY_DWAN, Triple("Allan Dwan", "country of citizenship", "American"))
    example = replace(FILM, supporting_facts=SupportingFacts((heidi, dwan), triples))
    for training_example in many(judgements.retrieval, example, BOTH, PassageLimits(), times=200):
        draw_passages, _, so_far = text_of(training_example.prompt).partition("Answer so far:")
        if "Dwan." in so_far and "American" not in so_far:
            assert training_example.target == ("continue" if "] Allan Dwan: " in draw_passages else "search")


def test_a_distractor_that_tells_the_fact_is_not_used_against_it():
    brother = Paragraph("Heidi (1920 film)", "It came before the Heidi of Allan Dwan.")
    example = replace(FILM, supporting_facts=SupportingFacts((HEIDI, brother), (HEIDI_BY_DWAN,)))
    training_examples = many(judgements.support, example, (), BOTH, PassageLimits())
    assert {training_example.target for training_example in training_examples} == {"fully"}


def test_the_answer_of_the_same_question_is_never_useless():
    assert {each.target for each in many(judgements.usefulness, FILM, FILM, BOTH)} == {"5", "3"}
