"""The made world of the study: its entities and documents, its questions, and what the model is taught."""

import random
import re
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from lab.tests.training.reader.sample_examples import RAW_ONLY

from askance.configuration.evaluation import read_dataset
from askance.core.errors import InputError
from askance_lab.training.reader.data_mix import build_data_mix
from askance_lab.training.reader.settings import ReaderSettings
from studies.known_unknown.questions import (
    chain_of,
    chains,
    example_of,
    needs_search,
    questions,
)
from studies.known_unknown.study import FULL, POCKET, write_world
from studies.known_unknown.teaching import TeachingBuilder, reading_exercises, taught_chains, taught_facts
from studies.known_unknown.world import EXPOSURES, make_world, relations


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
    counts = FULL.questions
    assert (known.pop((True,)), known.pop((False,))) == (6 * counts.single, counts.unknown)
    assert (known.pop((True, True)), known.pop((True, True, True))) == (3 * counts.double, 7 * counts.triple)
    assert {known[order] for order in known if len(order) == 2} == {counts.double}
    assert {known[order] for order in known if len(order) == 3} == {counts.triple}
    assert len(known) == 3 + 7
    assert 0.4 < sum(map(needs_search, asked)) / len(asked) < 0.6


def test_questions_of_calibration_are_others(world):
    asked = questions(world, POCKET.questions, 1)
    chains = {*map(partial(chain_of, world), asked)}
    others = questions(world, POCKET.calibration, 1, others=chains, prefix="c")
    assert {example.question.id[0] for example in others} == {"c"}
    assert not {example.question.text for example in asked} & {example.question.text for example in others}


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


def test_no_chain_is_both_taught_and_asked(tmp_path):
    made = write_world(tmp_path, POCKET)
    taught = {chain for chain in taught_chains(made, 1) if len(chain) > 1}
    assert len(taught) > 20
    for name in ("questions", "calibration"):
        asked = read_dataset(f"jsonl:{tmp_path / name}.jsonl")
        assert not taught & {*map(partial(chain_of, made), asked)}


def test_reading_exercises_ask_several_questions_about_passages_that_are_easily_confused(world):
    apart = make_world(2, POCKET.entities, apart_from=world)
    exercises = reading_exercises(apart, 40, 1)
    assert Counter(example.hops for example in exercises).keys() == {1, 2, 3}
    sets = defaultdict(list)
    for example in exercises:
        sets[example.supporting_facts.paragraphs].append(example)
    assert len(sets) == 40
    num_missing = 0
    for paragraphs, asked in sets.items():
        assert len(paragraphs) == 3
        assert len({paragraph.title for paragraph in paragraphs}) == 3
        assert len({example.question.text for example in asked}) == len(asked) >= 2
        longest = max(asked, key=lambda example: example.hops)
        shown = {paragraph.title for paragraph in paragraphs}
        if longest.hops == 1:
            continue
        needed = {*longest.supporting_titles}
        num_missing += not needed <= shown
        assert len(needed - shown) <= 1
        kinds = {apart.entities[title].kind for title in needed}
        words = set(" ".join(needed).split()) - {"The"}
        for paragraph in paragraphs:
            is_alike = words & set(re.findall(r"\w+", paragraph.text))
            assert apart.entities[paragraph.title].kind in kinds or is_alike
            assert paragraph.title not in world.entities
        for example in asked:
            assert example.hops > 1 or example.supporting_titles[0] in shown
    assert 0 < num_missing < 20


def test_the_builder_teaches_each_exposure_once_and_reading_in_passages(world):
    settings = ReaderSettings(held_out=0, chat=0, memory=0)
    taught, reading = (
        taught_facts(world, 1),
        reading_exercises(make_world(2, POCKET.entities, apart_from=world), 10, 1),
    )
    mix = build_data_mix({"taught": taught, "reading": reading}, RAW_ONLY, settings, TeachingBuilder)
    assert mix.num_by_task["taught", "memory"] == len(taught)
    assert mix.num_by_task["reading", "reading"] == len(reading)
    passages = {example.supporting_facts.paragraphs[0].text for example in reading}
    prompts = [
        "".join(span.text for span in each.prompt.parts) for each in mix.training if each.task != "memory"
    ]
    assert all(any(passage in prompt for passage in passages) for prompt in prompts)
    assert not mix.left_out
    (example,) = (each for each in mix.training if each.id == "taught/1")
    assert example.target.endswith(f"So the answer is {taught[0].golds[0]}.")


def test_each_relation_has_an_answer_for_every_question_and_one_question_that_is_never_taught():
    for kind in ("person", "place", "work", "organisation"):
        for relation in relations(kind):
            assert len(relation.questions) == len(relation.answers) == 5
            assert all("{s}" in text for text in (*relation.questions, relation.phrase))
            assert all("{o}" in text for text in (*relation.answers, *relation.document))
