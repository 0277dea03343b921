"""Each builder of training examples on invented questions: the methods' prompts and their targets."""

import random
from dataclasses import replace

import pytest
from lab.tests.training.reader.sample_examples import (
    ARGON,
    BOTH,
    DWAN,
    HEIDI,
    NO_TOWER,
    OTHER_FILM,
    PISA,
    RAW_ONLY,
    TOWER,
    supporting,
    text_of,
)
from lab.tests.training.reader.sample_examples import FILM as PLAIN_FILM

from askance.core.types import Chat, Demo, Question, Raw
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import ReasoningStep, SupportingFacts, Triple
from askance.methods.airrag.prompts import READER, REFUSAL, PromptBuilder, parse_queries
from askance.methods.common.prompts import PLAIN, answer_prompt, label_options
from askance.methods.selfrag.scoring import LABELS
from askance.text.answers import has_answer
from askance_lab.training.reader.answer_examples import (
    draw_passages,
    from_memory,
    from_passages,
    gold_reasoning,
    paragraph_answers,
)
from askance_lab.training.reader.passages import PassageLimits, as_hits
from recipes.reader import judgements
from recipes.reader.composed_questions import chain_parts, comparisons, part_examples, with_sentences
from recipes.reader.data_mix import conclusion_example
from recipes.reader.decomposition import following_up_examples, splitting_examples, summing_up_examples

FILM = with_sentences(PLAIN_FILM)
WHOLE = (
    "The director of Heidi is Allan Dwan. Allan Dwan was born on 3 April 1885. So the answer is 3 April 1885."
)


def many(builder, *arguments, times=60):
    """The training examples of a builder under many seeds."""
    return [
        training_example
        for seed in range(times)
        for training_example in builder(*arguments, random.Random(seed))
    ]


def test_reading_is_the_prompt_of_the_methods_over_the_same_passages():
    hits = as_hits((HEIDI, DWAN))
    training_examples = many(from_passages, FILM, hits, BOTH, "raw")
    first = training_examples[0]
    assert (first.task, first.target) == ("reading", f" {WHOLE}")
    assert first.prompt == answer_prompt(BOTH, FILM.question, hits, "", "raw", PLAIN)
    assert text_of(first.prompt) == (
        "Context:\n[1] Heidi (1937 film): Heidi is a film of 1937, directed by Allan Dwan.\n"
        "[2] Allan Dwan: Allan Dwan (3 April 1885 – 28 December 1981) was a director from Toronto.\n\n"
        "Question: When was the director of film Heidi (1937 Film) born?\nAnswer:|"
    )
    assert {training_example.task for training_example in training_examples} == {"reading", "going_on"}


@pytest.mark.parametrize("layout", ["raw", "chat"])
def test_going_on_parts_the_answer_between_words_and_loses_nothing(layout):
    training_examples = [each for each in many(from_memory, FILM, BOTH, layout) if each.task == "going_on"]
    cuts = set()
    for training_example in training_examples:
        so_far = text_of(training_example.prompt).partition("|")[2]
        assert so_far + training_example.target == (f" {WHOLE}" if layout == "raw" else WHOLE)
        assert has_answer(training_example.target)
        cuts.add(so_far.strip())
    assert "The director of Heidi is Allan Dwan." in cuts
    assert any(not cut.endswith(".") for cut in cuts)


def test_memory_has_no_passages_and_needs_facts():
    (first, *_) = from_memory(ARGON, BOTH, "raw", random.Random(0))
    assert text_of(first.prompt) == "Question: Can you chew argon?\nAnswer:|"
    assert first.target == " Argon is a gas. Gases can't be chewed. So the answer is no."


def test_facts_without_a_source_are_shown_as_passages_without_a_title():
    hits = draw_passages(ARGON, PassageLimits(), random.Random(0))
    assert hits is not None
    assert {(hit.passage.title, hit.passage.text) for hit in hits} == {
        ("", "Argon is a gas"),
        ("", "Gases can't be chewed."),
    }


def test_now_and_then_a_supporting_passage_is_missing():
    missing = 0
    for seed in range(200):
        hits = draw_passages(FILM, PassageLimits(), random.Random(seed))
        assert hits is not None
        missing += len({"Heidi (1937 film)", "Allan Dwan"} & {hit.passage.title for hit in hits}) == 1
    assert 20 <= missing <= 60  # a share of 0.2


def test_questions_on_a_paragraph_are_answered_or_refused_by_the_prompt_that_allows_it():
    training_examples = many(paragraph_answers, [TOWER, NO_TOWER], 100, BOTH, "raw")
    hits = as_hits([PISA])
    told = {
        (training_example.id, training_example.target, training_example.prompt)
        for training_example in training_examples
    }
    asked = {each.question.id: each.question.text for each in (TOWER, NO_TOWER)}
    prompts = PromptBuilder(BOTH, TOWER.question)
    worked = answer_prompt(BOTH, Question("p1", asked["p1"]), hits, "", "raw", PLAIN)
    assert told == {
        ("p1", " Pisa lies on the Arno. So the answer is Arno.", worked),
        ("p1", "Arno", prompts.ra(hits, asked["p1"])),
        ("p2", REFUSAL, prompts.ra(hits, asked["p2"])),
    }


def test_parts_of_a_chain_are_questions_of_their_own():
    (first, director, heidi), (second, birth, dwan) = chain_parts(FILM)
    assert (first, heidi) == ("Who directed Heidi?", (HEIDI,))
    assert director.text == "The director of Heidi is Allan Dwan. So the answer is Allan Dwan."
    assert (second, dwan) == ("When was Allan Dwan born?", (DWAN,))
    assert birth.text == "Allan Dwan was born on 3 April 1885. So the answer is 3 April 1885."


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
        told = supporting(name, f"{name} is a town in {country}.")
        asked = Question(name, f"In which country is {name}?")
        return Example(
            asked,
            (country,),
            supporting_facts=SupportingFacts((told,), (Triple(name, "country", country),)),
            hops=1,
        )

    towns = [town(f"T{at}", country) for at, country in enumerate(("Peru", "Chad", "Iran") * 4)]
    made = comparisons((*towns, town("Paris", "France"), town("Lyon", "French")), 200, random.Random(0))
    for example in made:
        one, other = (fact.object for fact in example.supporting_facts.triples)
        assert example.golds == (("yes",) if one == other else ("no",))
        assert {one, other} != {"France", "French"}  # the same in other words
    assert 70 <= sum(example.golds == ("yes",) for example in made) <= 130


def test_questions_are_split_as_they_can_be_asked_at_once():
    (training_example,) = splitting_examples(FILM, BOTH)
    assert training_example.prompt == PromptBuilder(BOTH, FILM.question).say()
    assert training_example.target == "Who directed Heidi?\nWhen was the director of Heidi born?"
    assert parse_queries(training_example.target) == tuple(training_example.target.split("\n"))
    assert [each.target for each in splitting_examples(ARGON, BOTH)] == ["What is argon?"]
    assert [each.target for each in splitting_examples(TOWER, BOTH)] == ["None"]


def test_following_up_puts_what_is_known_in_place():
    found = {
        (text_of(training_example.prompt), training_example.target)
        for training_example in many(following_up_examples, FILM, BOTH)
    }
    first, second = (
        Demo("Who directed Heidi?", "Allan Dwan"),
        Demo("When was Allan Dwan born?", "3 April 1885"),
    )
    planned = "When was the director of Heidi born?"

    def asked(history, current):
        return text_of(PromptBuilder(BOTH, FILM.question, READER).qt(history, current))

    assert found == {
        (asked([first], planned), "When was Allan Dwan born?"),
        (asked([first], ""), "When was Allan Dwan born?"),
        (asked([first, second], ""), "None"),
    }
    assert not list(following_up_examples(ARGON, BOTH, random.Random(0)))  # its steps have no answers


def test_a_way_with_a_step_left_out_is_not_followed_to_its_end():
    """The last step can't be asked before the others are answered."""
    steps = (
        ReasoningStep("Who wrote Emma?", "Jane Austen"),
        ReasoningStep("Who wrote Faust?", "Goethe"),
        ReasoningStep("Who of #1 and #2 died first?", "Jane Austen"),
    )
    asked = Question("m1", "Did the author of Emma or that of Faust die first?")
    example = Example(asked, ("Jane Austen",), hops=3, supporting_facts=SupportingFacts((DWAN,), steps=steps))
    (training_example,) = splitting_examples(example, BOTH)
    assert training_example.target == "Who wrote Emma?\nWho wrote Faust?"
    assert not many(following_up_examples, example, BOTH)
    assert not many(summing_up_examples, example, BOTH, PassageLimits())
    whole = replace(example, supporting_facts=SupportingFacts((DWAN,), steps=steps[:2]))
    assert {each.target for each in many(following_up_examples, whole, BOTH)} == {"Who wrote Faust?", "None"}
    assert {each.target for each in many(summing_up_examples, whole, BOTH, PassageLimits())} == {
        "Jane Austen"
    }


def test_summing_up_gives_the_short_answer():
    training_examples = many(summing_up_examples, FILM, BOTH, PassageLimits())
    assert {training_example.target for training_example in training_examples} == {"3 April 1885"}
    assert {"[1]" in text_of(training_example.prompt) for training_example in training_examples} == {
        True,
        False,
    }
    assert all(
        "Who directed Heidi? Allan Dwan" in text_of(training_example.prompt)
        for training_example in training_examples
    )


def test_prompts_are_chat_where_the_model_has_it_and_raw_where_not():
    (chat,) = splitting_examples(FILM, BOTH)
    (raw,) = splitting_examples(FILM, RAW_ONLY)
    assert isinstance(chat.prompt, Chat)
    assert isinstance(raw.prompt, Raw)


def test_behind_a_cue_in_plain_text_every_reply_begins_with_a_blank_as_it_is_scored():
    rng = random.Random(0)
    training_examples = [
        *splitting_examples(FILM, RAW_ONLY),
        *following_up_examples(FILM, RAW_ONLY, rng),
        *summing_up_examples(FILM, RAW_ONLY, PassageLimits(), rng),
        *paragraph_answers([NO_TOWER], 100, RAW_ONLY, "raw", random.Random(1)),
        *judgements.usefulness(FILM, ARGON, RAW_ONLY, rng),
    ]
    assert {training_example.task for training_example in training_examples} == {
        "splitting", "following_up", "summing_up", "single_hop", "usefulness"
    }  # fmt: skip
    assert all(text_of(each.prompt).endswith(":|") and each.target[0] == " " for each in training_examples)
    for training_example in judgements.relevance(FILM, RAW_ONLY, PassageLimits(), rng):
        assert training_example.target in label_options(training_example.prompt, LABELS["relevance"].values())


def test_what_follows_from_the_facts():
    made = gold_reasoning(ARGON)
    (training_example,) = conclusion_example(ARGON, BOTH, "raw")
    assert text_of(training_example.prompt).endswith(f"| {made.facts[0]}")
    assert training_example.target == f" {made.facts[-1]} {made.conclusion}"
    assert training_example.target.endswith(training_example.answer)
    assert training_example.answer == f" {made.answer}."
