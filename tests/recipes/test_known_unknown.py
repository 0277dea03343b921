"""The made world of the study: its entities and documents, its questions, and what the model is taught."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from recipes.known_unknown.questions import (
    chains,
    example_of,
    needs_search,
    questions,
)
from recipes.known_unknown.study import FULL, POCKET
from recipes.known_unknown.teaching import TeachingBuilder, reading_exercises, taught_facts
from recipes.known_unknown.world import EXPOSURES, make_world, relations

from askance.core.errors import InputError
from askance.training.reader.data_mix import build_data_mix
from askance.training.reader.settings import ReaderSettings
from tests.training.reader.sample_examples import RAW_ONLY


@pytest.fixture(scope="module")
def world():
    return make_world(1, POCKET.entities)


@pytest.fixture(scope="module")
def large():
    return make_world(1, FULL.entities)


def test_half_of_each_kind_is_known_in_equal_groups(large):
    for kind in ("person", "place", "work", "organisation"):
        groups = Counter(entity.exposures for entity in large.entities.values() if entity.kind == kind)
        known = [groups[exposures] for exposures in EXPOSURES]
        assert sum(known) == groups[0]
        assert max(known) - min(known) <= 1
    assert len(large.entities) >= 1000


def test_a_third_of_the_known_documents_is_stale_and_a_tenth_of_the_unknown_ones_missing(large):
    documents = Counter((entity.is_known, entity.document) for entity in large.entities.values())
    known = sum(entity.is_known for entity in large.entities.values())
    assert 0.3 <= documents[True, "stale"] / known <= 0.35
    assert 0.09 <= documents[False, "missing"] / (len(large.entities) - known) <= 0.11
    assert documents[True, "missing"] == documents[False, "stale"] == 0


def test_no_part_of_a_name_says_whether_its_bearer_is_known(large):
    parts = {is_known: set() for is_known in (True, False)}
    for entity in large.entities.values():
        if entity.kind == "person":
            parts[entity.is_known] |= {*entity.name.split()}
    assert len(parts[True] & parts[False]) >= 0.9 * len(parts[True] | parts[False])


def test_a_fresh_document_states_the_facts_and_a_stale_one_contradicts_all_of_them(world):
    texts, fresh = dict(world.documents()), dict(world.documents(is_fresh=True))
    for entity in world.entities.values():
        true = [fact.object for fact in world.facts[entity.name]]
        if entity.document == "missing":
            assert entity.name not in texts
            assert entity.name not in fresh
            continue
        assert all(name in fresh[entity.name] for name in true)
        stale = [fact.object for fact in world.stale.get(entity.name, ())]
        assert bool(stale) == (entity.document == "stale")
        assert not {*stale} & {*true}
        assert all(name in texts[entity.name] for name in stale or true)
        assert (texts[entity.name] == fresh[entity.name]) == (not stale)


def test_the_same_seed_gives_the_same_world_and_another_seed_another_one(world):
    again, other = make_world(1, POCKET.entities), make_world(2, POCKET.entities)
    assert [*again.documents()] == [*world.documents()]
    assert [*other.documents()] != [*world.documents()]


def test_a_world_apart_shares_names_parts_but_no_entity(world):
    apart = make_world(2, POCKET.entities, apart_from=world)
    assert not apart.entities.keys() & world.entities.keys()


@pytest.mark.parametrize("counts", [{**POCKET.entities, "person": 11}, {**POCKET.entities, "person": 10_000}])
def test_a_world_too_small_or_too_large_for_its_names(counts):
    with pytest.raises(
        InputError, match=f"{counts['person']} entities of the kind person: expected 36 to 2700"
    ):
        make_world(1, counts)


def test_questions_of_every_order_of_known_and_unknown_hops(large):
    asked = questions(large, FULL.questions, 1)
    assert len(asked) >= 600
    assert len({example.question.text for example in asked}) == len(asked)
    known = Counter(tuple(not hop.startswith("0 ") for hop in example.kind.split(" > ")) for example in asked)
    assert {known[order] for order in known if len(order) == 1} == {180}
    assert {known[order] for order in known if len(order) == 2} == {50}
    assert {known[order] for order in known if len(order) == 3} == {20}
    assert len(known) == 2 + 4 + 8


def test_a_question_has_the_facts_that_lead_to_its_answer(world):
    found = [*chains(world, 3, [*world.entities], random.Random(0))]
    assert len(found) > 100
    for chain in found:
        example = example_of(world, chain, "q")
        assert example.hops == len(example.supporting_facts.facts) == len(example.supporting_titles) == 3
        assert chain[0].subject in example.question.text
        assert chain[1].subject not in example.question.text
        assert example.golds == (chain[-1].object,)
        assert all(one.object == other.subject for one, other in pairwise(chain))


def test_a_hop_is_unknown_where_its_entity_is(world):
    for example in questions(world, POCKET.questions, 1):
        unknown = [not world.entities[title].is_known for title in example.supporting_titles]
        assert needs_search(example) == any(unknown)


def test_too_many_questions_for_a_world(world):
    with pytest.raises(InputError, match="are wanted: make the world larger, or ask fewer"):
        questions(world, replace(POCKET.questions, single=500), 1)


def test_every_fact_is_taught_as_often_as_its_entity_says(large):
    sentences = Counter(fact for example in taught_facts(large, 1) for fact in example.supporting_facts.facts)
    for entity in large.entities.values():
        for fact in large.facts[entity.name]:
            variants = {fact.answer(variant) for variant in range(4)}
            assert sum(sentences[sentence] for sentence in variants) == entity.exposures
    assert any(example.hops == 3 for example in taught_facts(large, 1))


def test_the_wording_of_the_evaluation_is_never_taught(world):
    taught = {example.question.text for example in taught_facts(world, 1)}
    assert not taught & {example.question.text for example in questions(world, POCKET.questions, 1)}


def test_chains_that_are_asked_are_not_taught(large):
    def taught_chains(asked):
        return {
            (example.supporting_facts.facts[0], example.golds)
            for example in taught_facts(large, 1, asked)
            if example.hops == 2
        }

    strong = [name for name, entity in large.entities.items() if entity.exposures >= 8]
    asked = [chain for seed in range(9) for chain in chains(large, 2, strong, random.Random(seed))]
    keys = {(chain[0].answer(), (chain[1].object,)) for chain in asked}
    assert keys & taught_chains(())
    assert not keys & taught_chains(asked)


def test_reading_exercises_hold_their_documents_among_others_of_the_same_kinds(world):
    apart = make_world(2, POCKET.entities, apart_from=world)
    exercises = reading_exercises(apart, 20, 1)
    assert Counter(example.hops for example in exercises).keys() == {1, 2, 3}
    for example in exercises:
        titles = [paragraph.title for paragraph in example.supporting_facts.supporting]
        assert titles == [*example.supporting_titles]
        others = [
            paragraph for paragraph in example.supporting_facts.paragraphs if not paragraph.is_supporting
        ]
        assert others
        assert {apart.entities[other.title].kind for other in others} <= {
            apart.entities[title].kind for title in titles
        }
        assert (
            not {paragraph.title for paragraph in example.supporting_facts.paragraphs} & world.entities.keys()
        )


def test_the_builder_teaches_each_exposure_once_and_reading_in_passages(world):
    settings = ReaderSettings(held_out=0, chat=0, memory=0)
    taught, reading = (
        taught_facts(world, 1),
        reading_exercises(make_world(2, POCKET.entities, apart_from=world), 10, 1),
    )
    mix = build_data_mix({"taught": taught, "reading": reading}, RAW_ONLY, settings, TeachingBuilder)
    assert mix.num_by_task["taught", "memory"] == len(taught)
    assert mix.num_by_task["reading", "reading"] == 10
    assert not mix.left_out
    (example,) = (each for each in mix.training if each.id == "taught/1")
    assert example.target.endswith(f"So the answer is {taught[0].golds[0]}.")


def test_each_relation_has_an_answer_for_every_question_and_one_question_that_is_never_taught():
    for kind in ("person", "place", "work", "organisation"):
        for relation in relations(kind):
            assert len(relation.questions) == len(relation.answers) == 5
            assert all("{s}" in text for text in (*relation.questions, relation.phrase))
            assert all("{o}" in text for text in (*relation.answers, *relation.document))
