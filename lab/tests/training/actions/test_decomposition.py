"""Sub-questions from facts and from steps that refer to each other's answers."""

import pytest
from lab.tests.training.actions.chains import chain, comparison
from lab.tests.training.reader.sample_examples import FILM

from askance.evaluation.datasets.example import ReasoningStep, Triple
from askance_lab.training.actions.decomposition import (
    MAX_DESCRIPTION_WORDS,
    BadReference,
    from_steps,
    from_triples,
    sub_questions,
)
from askance_lab.training.actions.noun_phrases import reference


def test_facts_become_questions_that_describe_or_name_the_earlier_answer():
    first, second = sub_questions(FILM)
    assert (first.planned, first.resolved, first.answer) == (
        "Who directed Heidi?", "Who directed Heidi?", "Allan Dwan",
    )  # fmt: skip
    assert (second.planned, second.resolved, second.topic) == (
        "When was the director of Heidi born?", "When was Allan Dwan born?", "Allan Dwan",
    )  # fmt: skip


def test_a_plan_names_no_answer_of_a_long_chain():
    facts = (
        Triple("Carmen", "composer", "Georges Bizet"),
        Triple("Georges Bizet", "father", "Adolphe Bizet"),
        Triple("Adolphe Bizet", "place of birth", "Rouen"),
    )
    assert [step.planned for step in from_triples(facts)] == [
        "Who composed the music of Carmen?",
        "Who is the father of the composer of Carmen?",
        "Where was the father of the composer of Carmen born?",
    ]


def test_references_and_relations_become_natural_questions():
    steps = sub_questions(chain(1))
    assert [step.planned for step in steps] == [
        "Who performed Song 1?",
        "What city was the performer of Song 1 formed in?",
        "Which river flows through that city?",
    ]
    assert [step.resolved for step in steps] == [
        "Who performed Song 1?",
        "What city was Band 1 formed in?",
        "Which river flows through Town 1?",
    ]
    assert [step.topic for step in steps] == ["Song 1", "", ""]


def test_steps_that_need_unknown_answers_are_left_to_the_summary():
    assert [step.planned for step in sub_questions(comparison(1))] == [
        "How old is cat 1?", "How old is dog 1?",
    ]  # fmt: skip


def test_a_long_description_gives_way_to_a_reference():
    words = "a very long and winding name " * 3
    steps = (ReasoningStep(f"{words}>> author", "Ada"), ReasoningStep("#1 >> place of birth", "Bonn"))
    assert len(words.split()) > MAX_DESCRIPTION_WORDS
    assert from_steps(steps)[1].planned == "Where was that person born?"


@pytest.mark.parametrize(
    ("step", "filled"),
    [
        ("who did the #1 play ?", "Who did the Astros play?"),
        ("what was #1 's anthem", "What was the Astros's anthem?"),
        ("#1 >> sport", "Which sport did the Astros play?"),
        ("#1 >> some odd relation", "What is the some odd relation of the Astros?"),
        ("Midway (near #1) >> country", "In which country is Midway?"),
    ],
)
def test_an_answer_is_filled_in_without_breaking_the_sentence(step, filled):
    assert from_steps((ReasoningStep("A?", "the Astros"), ReasoningStep(step, "x")))[1].resolved == filled


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        ("What city did Snow live in?", "that city"),
        ("In which county was he born?", "that county"),
        ("Who sang it?", "that person"),
        ("Where is it?", "that place"),
        ("When did it end?", "that time"),
        ("How many are there?", "that number"),
        ("What did he do?", "that thing"),
    ],
)
def test_a_reference_names_the_kind_of_the_answer(question, phrase):
    assert reference(question) == phrase


@pytest.mark.parametrize(
    "questions",
    [("Where is #3?", "Who is #1?", "A?"), ("Where is #1?",), ("A?", "Who is #0?"), ("A?", "#9?")],
)
def test_cycles_and_unknown_references_are_refused(questions):
    with pytest.raises(BadReference, match="which is no earlier step"):
        from_steps(tuple(ReasoningStep(each, "x") for each in questions))


def test_no_steps():
    assert from_steps(()) == ()
