"""Each task of the recipe on invented questions: the methods' prompts and their targets."""

import random

import pytest
from lab.tests.training.reader.sample_examples import (
    ARGON,
    BOTH,
    DWAN,
    NO_TOWER,
    OTHER_FILM,
    PISA,
    RAW_ONLY,
    TOWER,
    supporting,
    text_of,
)
from lab.tests.training.reader.sample_examples import FILM as PLAIN_FILM

from askance.core.types import Demo, Passage, Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import SupportingFacts, Triple
from askance.methods.airrag.prompts import READER, REFUSAL, PromptBuilder, parse_queries
from askance.methods.common.prompts import label_options
from askance.methods.selfrag.scoring import LABELS, judgement_prompt
from askance.text.answers import has_answer
from askance_lab.training.reader.answer_examples import (
    from_memory,
    gold_reasoning,
    paragraph_answers,
)
from askance_lab.training.reader.passages import PassageLimits, as_hits
from recipes.reader import judgements
from recipes.reader.composed_questions import comparisons, part_examples, with_sentences
from recipes.reader.data_mix import conclusion_example
from recipes.reader.decomposition import following_up_examples, splitting_examples, summing_up_examples

FILM = with_sentences(PLAIN_FILM)
WHOLE = (
    "The director of Heidi is Allan Dwan. Allan Dwan was born on 3 April 1885. So the answer is 3 April 1885."
)


def many(builder, *arguments, times=60):
    """The training examples of a builder under many seeds."""
    return [each for seed in range(times) for each in builder(*arguments, random.Random(seed))]


@pytest.mark.parametrize("layout", ["raw", "chat"])
def test_going_on_parts_the_answer_between_words_and_loses_nothing(layout):
    made = [each for each in many(from_memory, FILM, BOTH, layout) if each.task == "going_on"]
    cuts = set()
    for each in made:
        so_far = text_of(each.prompt).partition("|")[2]
        assert so_far + each.target == (f" {WHOLE}" if layout == "raw" else WHOLE)
        assert has_answer(each.target)
        cuts.add(so_far.strip())
    assert "The director of Heidi is Allan Dwan." in cuts
    assert any(not cut.endswith(".") for cut in cuts)


def test_a_part_that_is_not_shown_is_refused():
    targets = {
        (text_of(each.prompt).count("[2]"), each.target)
        for each in many(part_examples, FILM, as_hits([DWAN]), BOTH, "raw")
    }
    refused = {target for _, target in targets if target == REFUSAL}
    assert refused
    assert "Allan Dwan" not in {target for _, target in targets}  # the director: Heidi's paragraph is missing
    assert "3 April 1885" in {target for _, target in targets}


def test_two_records_with_dates_at_their_ends_are_compared():
    made = comparisons((FILM, OTHER_FILM), 40, random.Random(0))
    for example in made:
        first_wins = any(word in example.question.text for word in ("first", "earlier", "older"))
        names = ("Heidi", "Fury") if "the director" in example.question.text else ("Allan Dwan", "Fritz Lang")
        assert example.golds == (names[0] if first_wins else names[1],)
        assert len(example.supporting_facts.supporting) == len(example.supporting_facts.triples)
        assert PISA in example.supporting_facts.paragraphs
    assert {example.question.text.partition(",")[0] for example in made} == {
        f"{which} {when}"
        for which in ("Who", "Which film has the director who")
        for when in ("was born first", "was born earlier", "is older", "was born later", "is younger")
    }
    assert len({example.question.id for example in made}) == len(made)
    assert comparisons((FILM,), 5, random.Random(0)) == ()


def test_countries_are_the_same_or_not_about_as_often():
    def town(name, country):
        facts = SupportingFacts(
            (supporting(name, f"{name} is a town in {country}."),), (Triple(name, "country", country),)
        )
        return Example(Question(name, "Where is it?"), (country,), supporting_facts=facts, hops=1)

    towns = [town(f"T{at}", country) for at, country in enumerate(("Peru", "Chad", "Iran") * 4)]
    made = comparisons((*towns, town("Paris", "France"), town("Lyon", "French")), 200, random.Random(0))
    for example in made:
        one, other = (fact.object for fact in example.supporting_facts.triples)
        assert example.golds == (("yes",) if one == other else ("no",))
        assert {one, other} != {"France", "French"}  # the same in other words
    assert 70 <= sum(example.golds == ("yes",) for example in made) <= 130


def test_questions_are_split_as_they_can_be_asked_at_once():
    (each,) = splitting_examples(FILM, BOTH)
    assert each.prompt == PromptBuilder(BOTH, FILM.question).say()
    assert each.target == "Who directed Heidi?\nWhen was the director of Heidi born?"
    assert parse_queries(each.target) == tuple(each.target.split("\n"))
    assert [each.target for each in splitting_examples(ARGON, BOTH)] == ["What is argon?"]
    assert [each.target for each in splitting_examples(TOWER, BOTH)] == ["None"]


def test_following_up_puts_what_is_known_in_place():
    found = {(text_of(each.prompt), each.target) for each in many(following_up_examples, FILM, BOTH)}
    first = Demo("Who directed Heidi?", "Allan Dwan")
    second = Demo("When was Allan Dwan born?", "3 April 1885")
    planned = "When was the director of Heidi born?"

    def asked(history, current):
        return text_of(PromptBuilder(BOTH, FILM.question, READER).qt(history, current))

    assert found == {
        (asked([first], planned), "When was Allan Dwan born?"),
        (asked([first], ""), "When was Allan Dwan born?"),
        (asked([first, second], ""), "None"),
    }
    assert not list(following_up_examples(ARGON, BOTH, random.Random(0)))  # its steps have no answers


def test_summing_up_gives_the_short_answer():
    made = many(summing_up_examples, FILM, BOTH, PassageLimits())
    assert {each.target for each in made} == {"3 April 1885"}
    assert {"[1]" in text_of(each.prompt) for each in made} == {
        True,
        False,
    }
    assert all("Who directed Heidi? Allan Dwan" in text_of(each.prompt) for each in made)


def test_behind_a_cue_in_plain_text_every_reply_begins_with_a_blank_as_it_is_scored():
    rng = random.Random(0)
    made = [
        *splitting_examples(FILM, RAW_ONLY),
        *following_up_examples(FILM, RAW_ONLY, rng),
        *summing_up_examples(FILM, RAW_ONLY, PassageLimits(), rng),
        *paragraph_answers([NO_TOWER], 100, RAW_ONLY, "raw", random.Random(1)),
        *judgements.usefulness(FILM, ARGON, RAW_ONLY, rng),
    ]
    assert {each.task for each in made} == {
        "splitting", "following_up", "summing_up", "single_hop", "usefulness"
    }  # fmt: skip
    assert all(text_of(each.prompt).endswith(":|") and each.target[0] == " " for each in made)
    for each in judgements.relevance(FILM, RAW_ONLY, PassageLimits(), rng):
        assert each.target in label_options(each.prompt, LABELS["relevance"].values())


def test_what_follows_from_the_facts():
    made = gold_reasoning(ARGON)
    (each,) = conclusion_example(ARGON, BOTH, "raw")
    assert text_of(each.prompt).endswith(f"| {made.facts[0]}")
    assert each.target == f" {made.facts[-1]} {made.conclusion}"
    assert each.target.endswith(each.answer)
    assert each.answer == f" {made.answer}."


def test_relevance_holds_a_supporting_paragraph_against_a_distractor():
    relevant, irrelevant = judgements.relevance(FILM, BOTH, PassageLimits(), random.Random(0))
    assert (relevant.target, irrelevant.target) == ("relevant", "irrelevant")
    assert irrelevant.prompt == judgement_prompt(
        BOTH, FILM.question, "relevance", [Passage("", PISA.title, PISA.text)]
    )


FACTS = OTHER_FILM.supporting_facts.triples
FIRST, BOTH_FACTS = "The director of Heidi is Allan Dwan.", WHOLE.partition(" So")[0]
BORN = "Allan Dwan was born on 3 April 1885."


@pytest.mark.parametrize(
    ("judged", "cue", "expected"),
    [
        (
            many(judgements.support, FILM, FACTS, BOTH, PassageLimits(), times=200),
            "Sentence: ",
            {
                (FIRST, "fully"),
                (BORN, "fully"),
                (
                    "The director of Heidi is Allan Dwan, and Allan Dwan was born on 3 April 1885.",
                    "partially",
                ),
                (
                    "Allan Dwan was born on 3 April 1885, and the director of Heidi is Allan Dwan.",
                    "partially",
                ),
                ("The director of Heidi is Fritz Lang.", "not"),
                ("Allan Dwan was born on 5 December 1890.", "not"),
                (FIRST, "not"),  # beside the paragraph on Pisa
                (BORN, "not"),
            },
        ),
        (
            many(judgements.usefulness, FILM, ARGON, BOTH),
            "\nAnswer: ",
            {
                (WHOLE, "5"),
                (FIRST, "3"),
                ("Argon is a gas. Gases can't be chewed. So the answer is no.", "1"),
            },
        ),
        (
            many(judgements.retrieval, FILM, BOTH, PassageLimits(), times=200),
            "Answer so far: ",
            {
                *(("", label) for label in ("search", "continue")),
                *((FIRST, label) for label in ("search", "continue")),
                (BOTH_FACTS, "unneeded"),
            },
        ),
    ],
    ids=["support", "usefulness", "retrieval"],
)
def test_judgements_follow_from_what_a_dataset_tells(judged, cue, expected):
    assert {(text_of(each.prompt).partition(cue)[2].strip("|\n"), each.target) for each in judged} == expected
    for each in judged:
        text = text_of(each.prompt)
        if cue == "Sentence: " and each.target != "fully" and "Pisa" in text:
            assert each.target == "not"
        if cue == "Answer so far: " and f"{cue}{FIRST}|" in text:
            assert ("Dwan: " in text) == (each.target == "continue"), "due where no passage tells the fact"
