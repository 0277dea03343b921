"""Which training examples are made of which examples, how many, and what is held out or left out."""

from collections import Counter
from dataclasses import replace

import pytest
from lab.tests.training.reader.sample_examples import (
    ARGON,
    BOTH,
    FILM,
    NO_TOWER,
    OTHER_FILM,
    RAW_ONLY,
    TOWER,
    supporting,
)

from askance.core.errors import InputError
from askance.core.types import Question, Raw
from askance.evaluation.datasets.example import Paragraph, SupportingFacts, Triple
from askance_lab.training.reader.data_mix import build_data_mix
from recipes.reader.data_mix import RecipeBuilder, RecipeSettings

SHARES = (
    "reading", "memory", "compared", "deciding", "paragraph", "bridged",
    "splitting", "following_up", "summing_up", "judging",
)  # fmt: skip
TASKS = {
    "reading", "memory", "going_on", "single_hop", "splitting", "following_up", "summing_up",
    "relevance", "support", "usefulness", "retrieval",
}  # fmt: skip
NONE = RecipeSettings(**dict.fromkeys(SHARES, 0.0), chat=0.0)
EACH = RecipeSettings(**dict.fromkeys(SHARES, 1.0), chat=1.0)
RAW = replace(EACH, chat=0.0)


def mixed(examples, model, shares, **settings):
    return build_data_mix(examples, model, replace(shares, **settings), RecipeBuilder)


def films(count):
    """Films by directors born in different years."""
    made = []
    for number in range(count):
        film, person, date = f"Film {number}", f"Person {number}", f"5 May {1900 + number}"
        triples = (Triple(film, "director", person), Triple(person, "date of birth", date))
        paragraphs = (
            supporting(film, f"{film} was directed by {person}."),
            supporting(person, f"{person} was born on {date}."),
            Paragraph("Pisa", "Pisa lies on the Arno."),
        )
        question = Question(f"f{number}", f"When was the director of {film} born?")
        made.append(
            replace(
                FILM, question=question, golds=(date,), supporting_facts=SupportingFacts(paragraphs, triples)
            )
        )
    return tuple(made)


def tasks(made):
    return Counter(training_example.task for training_example in made.training)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        ({"splitting": 1.0}, {"splitting": 2}),
        ({"splitting": 3.0}, {"splitting": 6}),
        ({"following_up": 1.0}, {"following_up": 2}),
        ({"summing_up": 1.0}, {"summing_up": 2}),
        ({"compared": 1.0, "splitting": 1.0}, {"splitting": 4}),
        ({"deciding": 2.0}, {"going_on": 4}),
    ],
)
def test_a_share_is_a_number_of_examples_per_example(share, expected):
    made = mixed({"2wiki": (FILM, OTHER_FILM)}, BOTH, replace(NONE, **share), held_out=0)
    assert tasks(made) == expected


def test_every_task_is_taught():
    examples = {"2wiki": films(8), "strategyqa": (ARGON,), "squad2": (TOWER, NO_TOWER)}
    made = mixed(examples, BOTH, EACH, held_out=0)
    assert set(tasks(made)) == TASKS
    assert made.num_questions == {"2wiki": 8, "strategyqa": 1, "squad2": 2}
    assert sum(made.num_by_task.values()) == len(made.training)
    again, other = (mixed(examples, BOTH, EACH, held_out=0, seed=seed) for seed in (EACH.seed, 7))
    assert again == made
    assert other.training != made.training
    raw = mixed(examples, RAW_ONLY, EACH, held_out=0)
    assert all(isinstance(each.prompt, Raw) for each in raw.training), "the model has no chat format"
    assert {dataset for dataset, _ in made.num_by_task} == set(examples)


def test_nothing_is_learned_from_what_is_held_out():
    made = mixed({"2wiki": films(60)}, BOTH, replace(NONE, splitting=1.0, compared=0.5), held_out=0.3)
    numbers = [
        {part for each in some for part in each.id.removeprefix("2wiki/").split("+") if part[0] == "f"}
        for some in (made.training, made.held_out)
    ]
    assert not numbers[0] & numbers[1]
    assert numbers[0] | numbers[1] == {f"f{number}" for number in range(60)}
    assert 8 <= len(numbers[1]) <= 28


def test_examples_without_grounds_or_answers_are_left_out_and_counted():
    bare = replace(FILM, question=Question("bare", "Why?"), supporting_facts=SupportingFacts())
    blank = replace(FILM, question=Question("blank", "Why?"), golds=(" ",))
    made = mixed({"2wiki": (FILM, bare, blank)}, BOTH, EACH, held_out=0)
    assert dict(made.left_out) == {
        ("2wiki", "no supporting paragraphs, facts or steps"): 1,
        ("2wiki", "no answer"): 1,
    }
    assert not any(
        "bare" in training_example.id or "blank" in training_example.id for training_example in made.training
    )


@pytest.mark.parametrize(
    ("supporting_facts", "chosen", "why"),
    [
        (SupportingFacts(), {}, "1 of nq: no supporting paragraphs, facts or steps"),
        (
            SupportingFacts((supporting("Pisa", "Pisa " + "very " * 300 + "much lies on the Arno."),)),
            {"shares": replace(NONE, reading=1.0)},
            "1 of nq: evidence longer than passage_words=100",
        ),
        (FILM.supporting_facts, {"shares": NONE}, "the shares draw no example"),
        (
            FILM.supporting_facts,
            {"held_out": 0.5, "shares": replace(NONE, reading=1.0)},
            "examples are held out",
        ),
    ],
)
def test_nothing_to_learn_from_is_an_error_that_says_why(supporting_facts, chosen, why):
    """By its id, this question is among the half that is held out."""
    examples = {"nq": (replace(FILM, question=Question("f2", "When?"), supporting_facts=supporting_facts),)}
    with pytest.raises(InputError, match="hold nothing to learn from") as caught:
        mixed(examples, BOTH, **({"shares": EACH, "held_out": 0.0} | chosen))
    assert why in str(caught.value)
