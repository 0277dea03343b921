"""Questions of two hops out of questions of one."""

import random

import pytest

from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts
from askance_lab.training.actions.noun_phrases import noun_phrase
from askance_lab.training.reader.answer_examples import gold_reasoning
from recipes.reader.bridge_questions import MAX_PER_BRIDGE, bridge_questions


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
    draw_passages = {each.text: each.is_supporting for each in example.supporting_facts.paragraphs}
    assert draw_passages == {
        LEAD.supporting_facts.paragraphs[0].text: True,
        DIED.supporting_facts.paragraphs[0].text: True,
        OTHER.supporting_facts.paragraphs[0].text: False,
    }


def test_two_questions_on_one_paragraph_need_it_once():
    text = "Carmen is by Georges Bizet. Georges Bizet died in Paris."
    lead = asked("a", "Who composed Carmen?", "Georges Bizet", text)
    died = asked("b", "Where did Georges Bizet die?", "Paris", text)
    (example,) = bridge_questions((lead, died), random.Random(0))
    (paragraph,) = example.supporting_facts.supporting
    assert paragraph.evidence_texts == ("Carmen is by Georges Bizet.", "Georges Bizet died in Paris.")


@pytest.mark.parametrize(
    "question",
    [
        "Where did Georges Bizet Street end?",
        "Where did Saint Georges Bizet die?",
        "Where did Georges Bizet-Halle start?",
        "What do Georges Bizet operas begin with?",
        "Where did Bizet die?",
    ],
)
def test_a_part_of_a_longer_name_is_no_bridge(question):
    other = asked("b", question, "Paris", "It was in Paris.")
    assert bridge_questions((LEAD, other), random.Random(0)) == ()


def test_no_question_gives_the_answer_of_the_other_away():
    back = asked("b", "What did Georges Bizet compose?", "Carmen", "Georges Bizet composed Carmen.")
    assert bridge_questions((LEAD, back), random.Random(0)) == ()


def test_one_name_is_not_all_there_is():
    many = [
        asked(
            f"b{at}",
            f"Where did Georges Bizet live in 18{at + 50}?",
            f"Town {at}",
            f"He was in Town {at} then.",
        )
        for at in range(3 * MAX_PER_BRIDGE)
    ]
    made = bridge_questions((LEAD, *many), random.Random(0))
    assert len(made) == MAX_PER_BRIDGE
    assert made == bridge_questions((LEAD, *many), random.Random(0))
    assert made != bridge_questions((LEAD, *many), random.Random(1))
