"""Pairs for the training of a cross-encoder: what is relevant, what is not, and what stays apart."""

import random
from collections import Counter

import pytest

from askance.core.errors import InputError
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, SupportingFacts
from askance_lab.training.relevance.pairs import make_pairs
from askance_lab.training.relevance.settings import RelevanceSettings

ANIMALS = ["cat", "dog", "goat", "horse", "mouse", "otter", "pig", "rat", "seal", "tapir"]
COLOURS = ["red", "blue", "green", "white", "black", "brown", "grey", "pink", "teal", "ochre"]


def example(number: int, *, title: str = "", kind: str = "answerable") -> Example:
    """A question about the colour of an animal; all paragraphs are about colours of animals."""
    animal, colour = ANIMALS[number], COLOURS[number]
    text = f"The coat of the {animal} has one colour. It is {colour}, as everybody knows."
    evidence = () if kind == "unanswerable" else ((text.index("It is"), len(text)),)
    paragraph = Paragraph(title or f"The {animal}", text, evidence)
    question = Question(f"q{number}", f"Which colour is the coat of the {animal}?")
    return Example(question, (colour,), (paragraph.title,), kind, 1, SupportingFacts((paragraph,)))


def pairs_of(examples, **settings):
    return make_pairs({"animals": examples}, RelevanceSettings(**{"held_out": 0.0, "claims": 0.0} | settings))


def test_the_passage_with_evidence_is_relevant_and_the_first_others_are_not():
    made = pairs_of([example(number) for number in range(10)], negatives=2)
    assert made.held_out == ()
    for number in range(10):
        own = [pair for pair in made.training if pair.id == f"animals/q{number}"]
        assert [pair.label for pair in own] == [True, False, False]
        assert ANIMALS[number] in own[0].passage.text
        assert own[0].hit is not None
        assert own[0].hit.rank == 1, "the words of the question are in it"
        ranks = [pair.hit.rank for pair in own[1:] if pair.hit]
        assert ranks == [2, 3], "the first that BM25 finds beside it"
        assert all(ANIMALS[number] not in pair.passage.text for pair in own[1:])


def test_a_long_paragraph_is_cut_and_only_the_part_with_the_evidence_is_relevant():
    filler = "Nothing is said of colours here. " * 30
    text = f"{filler}The coat of the cat is red. {filler}"
    start = text.index("The coat")
    facts = SupportingFacts((Paragraph("Cats", text, ((start, start + 27),)),))
    long = Example(
        Question("long", "Which colour is the coat of the cat?"), ("red",), ("Cats",), "", 1, facts
    )
    made = pairs_of([long, example(1)], negatives=9)
    relevant = [pair for pair in made.training if pair.id == "animals/long" and pair.label]
    assert [pair.passage.text.count("The coat of the cat is red.") for pair in relevant] == [1]
    others = [pair for pair in made.training if pair.id == "animals/long" and not pair.label]
    assert any(pair.passage.title == "Cats" for pair in others), "another part of the same paragraph"
    assert all("The coat of the cat is red" not in pair.passage.text for pair in others)


def test_an_unanswerable_question_has_its_own_paragraph_as_the_wrong_one():
    asked = [example(0), example(1), example(2, kind="unanswerable")]
    made = pairs_of(asked)
    (pair,) = [pair for pair in made.training if pair.id == "animals/q2"]
    assert not pair.label
    assert ANIMALS[2] in pair.passage.text
    without = pairs_of(asked, unanswerable=0.0)
    assert all(pair.id != "animals/q2" for pair in without.training)
    assert without.left_out == {("animals", "no paragraphs, no evidence, or not drawn"): 1}


def test_claims_are_questions_with_their_answer():
    examples = [example(number) for number in range(10)]
    made = pairs_of(examples, claims=1.0)
    random.seed(1)
    assert pairs_of(examples, claims=1.0) == made, "the seed of the settings decides alone"
    claims = [pair for pair in made.training if pair.task == "support"]
    assert Counter(pair.label for pair in claims) == {True: 10, False: 10}
    for pair in claims:
        answer = pair.query.split()[-1]
        assert (answer in pair.passage.text) == pair.label
    assert made.counts == [("animals", "relevance", 40, 10), ("animals", "support", 20, 10)]


def test_questions_about_one_title_are_held_out_together():
    examples = [example(number, title=f"Article {number // 2}") for number in range(10)]
    made = pairs_of(examples, held_out=0.4, negatives=1)
    groups = [{pair.id for pair in pairs} for pairs in (made.training, made.held_out)]
    assert all(groups)
    assert not groups[0] & groups[1]
    for number in range(0, 10, 2):
        twins = {f"animals/q{number}", f"animals/q{number + 1}"}
        assert twins <= groups[0] or twins <= groups[1]
    relevant = {pair.passage.title for pair in made.held_out if pair.label}
    assert relevant
    assert not relevant & {pair.passage.title for pair in made.training}


def test_one_label_only_is_refused():
    with pytest.raises(InputError, match=r"only relevant passages to train on .*other paragraphs"):
        pairs_of([example(0)])
    with pytest.raises(InputError, match="only irrelevant passages"):
        pairs_of([example(0, kind="unanswerable")])
    bare = Example(Question("q", "Which?"), ("red",))
    with pytest.raises(InputError, match=r"no pairs to train on \(1 of animals: no paragraphs"):
        pairs_of([bare])
