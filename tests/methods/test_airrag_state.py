"""The states of AirRAG: queues, histories, and which action may follow which."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Demo, Hit, Passage
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.parameters import ALL, WITHOUT_ANALYSIS, Actions
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, PathState, is_same_query
from askance.methods.dragin.method import Dragin

QUESTION = "Where does the creek under the bridge end?"
HITS = tuple(Hit(Passage(id, id, id), 1 / rank, rank) for rank, id in enumerate("ab", start=1))
OTHERS = tuple(Hit(Passage(id, id, id), 1 / rank, rank) for rank, id in enumerate("cb", start=1))


def test_a_plan_is_the_queue_and_without_one_the_question_is():
    assert PathState().with_plan(("one", "two"), QUESTION).pending == ("one", "two")
    bare = PathState().with_plan((), QUESTION)
    assert bare.pending == (QUESTION,)
    assert bare.plan == ()


def test_an_answer_leaves_the_queue_and_joins_the_history():
    state = PathState().with_plan(("one", "two"), QUESTION).with_answer("one", "1", HITS)
    assert state.pending == ("two",)
    assert state.history == (Demo("one", "1"),)


def test_transformed_queries_take_the_place_of_the_next():
    state = PathState().with_plan(("one", "two", "three"), QUESTION).with_answer("one", "1", HITS)
    assert state.with_queries(("2a", "2b")).pending == ("2a", "2b", "three")
    assert state.with_queries(()).pending == ("two", "three")


def test_follow_ups_are_the_queue_where_nothing_is_pending():
    state = PathState().with_plan((), QUESTION).with_answer(QUESTION, "1", HITS)
    assert state.with_queries(("and then",)).pending == ("and then",)
    assert state.with_queries(()).pending == ()


def test_what_was_asked_is_not_asked_again():
    state = PathState().with_plan(("Which creek?",), QUESTION).with_answer("Which creek?", "x", HITS)
    again = state.with_queries(("which  creek", "which sea?"))
    assert again.pending == ("which sea?",)
    assert again.num_repeats == 0, "it asks something new, too"
    assert state.with_queries(("Which creek?", "which  creek")).num_repeats == 1
    assert state.with_queries(()).num_repeats == 0
    assert state.with_queries(("WHICH CREEK",)).pending == ()


def test_two_repeats_on_a_path_end_it():
    state = PathState().with_plan(("a b", "c d", "e f"), QUESTION)
    state = state.with_answer("a b", "1", HITS).with_queries(("a b",))
    assert Airrag().actions_after(state) == (RA,)
    state = state.with_answer("c d", "2", HITS).with_queries(("c d",))
    assert Airrag().actions_after(state) == (SA,)


def test_passages_stand_once_the_best_of_each_retrieval_first():
    state = PathState().with_plan(("one", "two"), QUESTION)
    state = state.with_answer("one", "1", HITS).with_answer("two", "2", OTHERS)
    assert [hit.passage.id for hit in state.hits] == ["a", "c", "b"]


def ranked(ids):
    return tuple(Hit(Passage(id, id, id), 1 / rank, rank) for rank, id in enumerate(ids, start=1))


@pytest.mark.parametrize("again", ["cdefb", "cb", "bc"])
def test_a_passage_keeps_its_best_rank_wherever_it_is_found_again(again):
    state = PathState().with_plan(("one", "two"), QUESTION).with_answer("one", "1", ranked("axb"))
    state = state.with_answer("two", "2", ranked(again))
    places = {hit.passage.id: hit.rank for hit in state.hits}
    assert places["b"] == min(3, again.index("b") + 1)
    assert [hit.rank for hit in state.hits] == sorted(places.values())
    assert len(state.hits) == len(set("axb" + again))


def test_a_query_that_is_pending_already_is_not_queued_twice():
    state = PathState().with_plan(("one way", "two ways", "Two ways?", "three ways"), QUESTION)
    assert state.pending == ("one way", "two ways", "three ways")
    state = state.with_answer("one way", "1", HITS)
    assert state.with_queries(("THREE ways", "new")).pending == ("THREE ways", "new")
    assert state.with_queries(("new", "three ways?", "New")).pending == ("new", "three ways?")
    assert state.with_queries(("three ways",)).num_repeats == 0, "it has not been answered yet"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The Po", "po", True),
        ("where is the bridge", "where is the ferry", False),
        ("?", "!", True),
        ("?", "po", False),
    ],
)
def test_the_same_query(one, other, same):
    assert is_same_query(one, other) is same


def test_actions_at_the_root():
    assert Airrag().actions_after(PathState()) == (SAY,)
    assert Airrag(actions=Actions((("dragin", Dragin()),))).actions_after(PathState()) == (
        SAY,
        "dragin",
    )
    assert Airrag(actions=WITHOUT_ANALYSIS).actions_after(PathState()) == (RA, QT)


def test_what_gave_nothing_is_replaced_by_a_summary_or_at_the_root_by_a_search():
    legal = Airrag().actions_after
    assert legal(PathState(), frozenset({SAY})) == (RA,)
    assert legal(PathState(), frozenset({SAY, RA})) == (DA,)
    assert legal(PathState(), frozenset({SAY, RA, DA})) == ()
    state = PathState().with_plan(("one", "two"), QUESTION).with_answer("one", "1", HITS)
    assert legal(state, frozenset({QT})) == (SA,)
    assert legal(state, frozenset({QT, SA})) == ()


def step(state, action, chance):
    if action == SAY:
        return state.with_plan(tuple(f"q{n} {chance.random()}" for n in range(chance.randrange(4))), QUESTION)
    if action == RA:
        query = state.pending[0] if state.pending else QUESTION
        return state.with_answer(query, "x", HITS)
    if action == QT:
        return state.with_queries(tuple(f"t{chance.random()}" for _ in range(chance.randrange(3))))
    return state.with_final_answer(action, "end")


FOLLOWS = {"": {SAY}, SAY: {RA, QT}, RA: {QT, SA}, QT: {RA, SA}}
FOLLOWS_LITE = {"": {RA, QT}, RA: {QT, SA}, QT: {RA, SA}}


@given(st.integers(), st.booleans())
def test_every_path_keeps_to_the_table(seed, is_lite):
    chance = random.Random(seed)
    legal = Airrag(actions=WITHOUT_ANALYSIS if is_lite else ALL).actions_after
    state = PathState(pending=(QUESTION,) if is_lite else ())
    while state.answer is None:
        actions = legal(state)
        assert actions
        assert set(actions) <= (FOLLOWS_LITE if is_lite else FOLLOWS)[state.last_action]
        if state.last_action == QT and not state.pending:
            assert actions == (SA,)
        if state.last_action == RA and state.pending and SA in actions:
            assert QT not in actions
        state = step(state, chance.choice(actions), chance)
    taken = [each.action for each in state.steps]
    assert len(state.steps) <= (9 if is_lite else 10)
    assert state.count(RA) <= 4
    assert state.count(QT) <= 4
    assert (RA, RA) not in pairwise(taken)
    assert (QT, QT) not in pairwise(taken)
    assert taken[-1] == SA


def test_equal_paths_have_equal_keys():
    one = PathState().with_plan(("The Po",), QUESTION).with_final_answer(SA, "Turin.")
    other = PathState().with_plan(("po?",), QUESTION).with_final_answer(SA, "the turin")
    assert one.key == other.key
    assert one.key != PathState().with_plan(("Arno",), QUESTION).with_final_answer(SA, "Turin.").key
