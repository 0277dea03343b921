"""Which rows are made of a question, and which questions are left out."""

from collections import Counter
from dataclasses import replace

import pytest
from lab.tests.training.actions.chains import CHAINS, COMPARISONS, chain
from lab.tests.training.reader.sample_examples import FILM, NO_TOWER, PISA, TOWER

from askance.core.types import Question
from askance.evaluation.datasets.example import ReasoningStep, SupportingFacts
from askance.methods.airrag.prompts import REFUSAL, parse_queries
from askance_lab.training.actions.gold_rows import LeftOut, gold_rows
from askance_lab.training.actions.rows import is_well_formed
from askance_lab.training.actions.settings import ActionSettings

NOTHING = ActionSettings(say=0, qt=0, ra=0, sa=0, da=0)


def rows(examples, **changed):
    left_out = LeftOut()
    return list(gold_rows("own", examples, replace(NOTHING, **changed), left_out)), left_out


def test_a_plan_has_a_line_for_each_sub_question():
    (row,), _ = rows([FILM], say=1.0, none_share=0.0)
    assert (row.action, row.kind, row.id) == ("say", "plan", "own/f1")
    assert row.reply == "Who directed Heidi?\nWhen was the director of Heidi born?"


def test_sub_questions_need_no_plan():
    made, _ = rows([FILM], say=40.0, none_share=0.5)
    asked = {row.question.text: row.reply for row in made if row.is_none}
    assert asked == {"Who directed Heidi?": "None", "When was Allan Dwan born?": "None"}
    assert {row.reply for row in rows([TOWER], say=3.0)[0]} == {"None"}


def test_the_transformations_of_the_paper():
    made, _ = rows([FILM], qt=80.0, none_share=0.2)
    found = {
        (row.kind, row.reply, row.sub_question, tuple(pair.answer for pair in row.history)) for row in made
    }
    plan = "Who directed Heidi?\nWhen was the director of Heidi born?"
    born, planned = "When was Allan Dwan born?", "When was the director of Heidi born?"
    assert found == {
        ("follow-up", born, "", ("Allan Dwan",)),
        ("rewriting", born, planned, ("Allan Dwan",)),
        ("step-back", "What is known about Heidi?", "", (REFUSAL,)),
        ("step-back", "What is known about Allan Dwan?", "", ("Allan Dwan", REFUSAL)),
        ("splitting", plan, FILM.question.text, ()),
        ("splitting", plan, "", (REFUSAL,)),
        ("none", "None", "", ("Allan Dwan", "3 April 1885")),
    }


def test_a_sub_question_without_references_is_kept_as_planned():
    steps = (ReasoningStep("How old is the cat?", "3"), ReasoningStep("How old is the dog?", "4"))
    pets = replace(FILM, supporting_facts=SupportingFacts(steps=steps))
    made, _ = rows([pets], qt=60.0, none_share=0.9)
    nones = {(row.sub_question, len(row.history)) for row in made if row.is_none}
    assert nones == {("", 2), ("How old is the dog?", 1)}


def test_answers_are_read_from_the_paragraph_that_has_them_or_refused():
    made, _ = rows([FILM], ra=80.0, refused=0.3)
    assert Counter(row.kind for row in made)["refusal"] > 5
    for row in made:
        texts = " ".join(hit.passage.text for hit in row.hits)
        assert len(row.hits) <= NOTHING.passages
        assert (row.reply in texts) == (row.kind == "answer")
        assert row.reply == {
            ("Who directed Heidi?", "answer"): "Allan Dwan",
            ("When was Allan Dwan born?", "answer"): "3 April 1885",
        }.get((row.sub_question, row.kind), REFUSAL)


def test_summaries_have_all_answers():
    made, _ = rows([FILM], sa=20.0)
    assert {row.reply for row in made} == {"3 April 1885"}
    assert {tuple(pair.answer for pair in row.history) for row in made} == {("Allan Dwan", "3 April 1885")}
    assert {len(row.hits) for row in made} == {0, 2}


def test_a_question_without_a_decomposition_is_answered_but_not_planned():
    bare = replace(FILM, supporting_facts=SupportingFacts(FILM.supporting_facts.paragraphs))
    made, left_out = rows([bare], say=2.0, qt=2.0, ra=6.0, sa=6.0, da=1.0, refused=0.0)
    assert {row.action for row in made} == {"ra", "sa", "da"}
    assert {row.reply for row in made} == {"3 April 1885"}
    assert all(row.hits for row in made if row.action != "da")
    ((name, reason),) = left_out
    assert (name, "no decomposition" in reason, left_out[name, reason]) == ("own", True, 1)


def test_single_paragraphs_are_answered_or_refused():
    made, left_out = rows([TOWER, NO_TOWER], ra=1.0, sa=1.0, da=1.0, refused=0.0)
    assert [(row.action, row.reply) for row in made if row.action == "ra"] == [
        ("ra", "Arno"),
        ("ra", REFUSAL),
    ]
    assert {row.id for row in made if row.action != "ra"} == {"own/p1"}
    assert not left_out


def test_without_evidence_or_answers_only_what_is_known_is_learned():
    distractor = replace(TOWER, supporting_facts=SupportingFacts((PISA,)))
    shares = {"ra": 4.0, "sa": 4.0, "da": 1.0, "refused": 0.0}
    assert [(row.action, row.reply) for row in rows([distractor], **shares)[0]] == [("da", "Arno")]
    for golds in ((), (" ",)):
        assert not rows([replace(TOWER, golds=golds)], **shares)[0]


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ((("Where is #3?", "a"), ("Who is #1?", "b"), ("#2 >> child", "c")), "not before it"),
        ((), "no decomposition"),
        ((("Who sang it?", "a"),), "no decomposition"),
        (tuple((f"What is the number {number}?", "n") for number in range(5)), "would not read completely"),
        ((("Who sang it?", "a"), ("Who sang it?", "a")), "would not read completely"),
    ],
)
def test_bad_decompositions_are_left_out_and_counted(steps, reason):
    made = tuple(ReasoningStep(*step) for step in steps)
    bad = replace(FILM, supporting_facts=SupportingFacts(steps=made))
    found, left_out = rows([bad, chain(1)], say=1.0, qt=1.0, none_share=0.0)
    assert {row.id for row in found} == {"own/m1"}
    ((_, told),) = left_out
    assert reason in told


def test_every_reply_is_well_formed_and_every_question_has_its_own_seed():
    shares = {"say": 2.0, "qt": 4.0, "ra": 1.0, "sa": 1.0, "da": 1.0}
    made, _ = rows([*CHAINS, *COMPARISONS], **shares)
    assert all(is_well_formed(row.action, row.reply) for row in made)
    assert all(row.is_none or parse_queries(row.reply) for row in made if row.action in ("say", "qt"))
    assert {row.kind for row in made if row.id == "own/s1" and row.action == "qt"} <= {"splitting"}
    alone, _ = rows([chain(3)], **shares)
    assert alone == [row for row in made if row.id == "own/m3"]
    assert rows([chain(3)], seed=1, **shares)[0] != alone


def test_a_question_of_one_hop_keeps_its_options():
    asked = Question("c", "Which river?", "choice", ("Arno", "Po"))
    (row,), _ = rows([replace(TOWER, question=asked)], say=1.0)
    assert row.question.options == ("Arno", "Po")
