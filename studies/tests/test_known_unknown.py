"""The made world of the study: its entities and documents, its questions, and what the model is taught."""

import random
import re
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest

from askance.configuration.evaluation import read_dataset
from askance.core.errors import InputError
from studies.known_unknown.questions import (
    chain_of,
    chains,
    example_of,
    needs_search,
    questions,
)
from studies.known_unknown.study import FULL, POCKET, write_world
from studies.known_unknown.teaching import reading_exercises, taught_chains, taught_facts
from studies.known_unknown.world import EXPOSURES, make_world


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
    apart = make_world(2, FULL.entities, apart_from=large)
    assert not apart.entities.keys() & large.entities.keys()


def test_a_third_of_the_known_documents_is_stale_and_a_tenth_of_the_unknown_ones_missing(large):
    documents = Counter((entity.is_known, entity.document) for entity in large.entities.values())
    known = sum(entity.is_known for entity in large.entities.values())
    assert 0.3 <= documents[True, "stale"] / known <= 0.35
    assert 0.09 <= documents[False, "missing"] / (len(large.entities) - known) <= 0.11
    assert documents[True, "missing"] == documents[False, "stale"] == 0
    texts, fresh = dict(large.documents()), dict(large.documents(is_fresh=True))
    for entity in large.entities.values():
        assert (entity.name in texts) == (entity.name in fresh) == (entity.document != "missing")
        if entity.document != "missing":
            true = [fact.object for fact in large.facts[entity.name]]
            stale = [fact.object for fact in large.stale.get(entity.name, ())]
            assert all(name in fresh[entity.name] for name in true)
            assert bool(stale) == (entity.document == "stale")
            assert not {*stale} & {*true}, "a stale document contradicts all facts"
            assert all(name in texts[entity.name] for name in stale or true)


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
    for example in asked:
        unknown = [not large.entities[title].is_known for title in example.supporting_titles]
        assert needs_search(example) == any(unknown)


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
    with pytest.raises(InputError, match="are wanted: make the world larger, or ask fewer"):
        questions(world, replace(POCKET.questions, single=500), 1)


def test_every_fact_is_taught_as_often_as_its_entity_says(large):
    sentences = Counter(fact for example in taught_facts(large, 1) for fact in example.supporting_facts.facts)
    for entity in large.entities.values():
        for fact in large.facts[entity.name]:
            variants = {fact.answer(variant) for variant in range(4)}
            assert sum(sentences[sentence] for sentence in variants) == entity.exposures
    assert any(example.hops == 3 for example in taught_facts(large, 1))
    wordings = {example.question.text for example in taught_facts(large, 1)}
    asked = {example.question.text for example in questions(large, FULL.questions, 1)}
    assert not wordings & asked, "the wording of the evaluation is never taught"


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
