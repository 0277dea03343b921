"""The states of AirRAG: queues of sub-queries, histories, passages, and which action may follow which."""

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


def ranked(ids):
    return tuple(Hit(Passage(id, id, id), 1 / rank, rank) for rank, id in enumerate(ids, start=1))


def planned(*queries):
    return PathState().with_plan(queries, QUESTION)


@pytest.mark.parametrize(
    ("plan", "answered", "queries", "pending", "num_repeats"),
    [
        ("", 0, None, (QUESTION,), 0),
        ("one way; two ways; Two ways?; three ways", 0, None, ("one way", "two ways", "three ways"), 0),
        ("one; two; three", 1, None, ("two", "three"), 0),
        ("one; two; three", 1, ("2a", "2b"), ("2a", "2b", "three"), 0),
        ("one; two", 1, (), ("two",), 0),
        ("one", 1, ("and then",), ("and then",), 0),
        ("which creek", 1, ("Which  creek?", "which sea?"), ("which sea?",), 0),
        ("which creek", 1, ("Which creek?", "which  creek"), (), 1),
        ("one way; two ways; three ways", 1, ("THREE ways", "new"), ("THREE ways", "new"), 0),
        ("one way; two ways; three ways", 1, ("new", "three ways?", "New"), ("new", "three ways?"), 0),
        ("one way; two ways; three ways", 1, ("three ways",), ("three ways",), 0),
    ],
)
def test_the_queue(plan, answered, queries, pending, num_repeats):
    state = planned(*filter(None, plan.split("; ")))
    assert state.plan == tuple(filter(None, plan.split("; ")))
    for query in state.pending[:answered]:
        state = state.with_answer(query, "1", ranked("ab"))
        assert state.history == (Demo(query, "1"),)
    state = state if queries is None else state.with_queries(queries)
    assert (state.pending, state.num_repeats) == (pending, num_repeats)


@pytest.mark.parametrize(
    ("first", "again", "ids", "ranks"),
    [("ab", "cb", "acb", [1, 1, 2]), ("axb", "cdefb", "acxdbef", None), ("axb", "bc", "abxc", [1, 1, 2, 2])],
)
def test_a_passage_keeps_its_best_rank_wherever_it_is_found_again(first, again, ids, ranks):
    state = planned("one", "two").with_answer("one", "1", ranked(first))
    hits = state.with_answer("two", "2", ranked(again)).hits
    assert sorted(hit.passage.id for hit in hits) == sorted({*first, *again})
    assert [hit.rank for hit in hits] == sorted(hit.rank for hit in hits)
    assert ranks is None or ("".join(hit.passage.id for hit in hits), [hit.rank for hit in hits]) == (
        ids,
        ranks,
    )
    best = {hit.passage.id: hit.rank for hit in hits}["b"]
    assert best == min(first.index("b") + 1, again.index("b") + 1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("The Po", "po", True), ("where is it", "where is she", False), ("?", "!", True), ("?", "po", False)],
)
def test_the_same_query(one, other, same):
    assert is_same_query(one, other) is same


ONE_ANSWERED = planned("one", "two").with_answer("one", "1", ranked("ab"))
ONE_REPEAT = planned("a b", "c d", "e f").with_answer("a b", "1", ()).with_queries(("a b",))
TWO_REPEATS = ONE_REPEAT.with_answer("c d", "2", ()).with_queries(("c d",))


@pytest.mark.parametrize(
    ("actions", "state", "dead", "legal"),
    [
        (ALL, PathState(), (), (SAY,)),
        (Actions((("dragin", Dragin()),)), PathState(), (), (SAY, "dragin")),
        (WITHOUT_ANALYSIS, PathState(), (), (RA, QT)),
        (Actions(own=(DA,)), PathState(), (), (DA,)),
        (Actions(own=(DA,)), PathState(), (DA,), ()),
        (ALL, PathState(), (SAY,), (RA,)),
        (ALL, PathState(), (SAY, RA), (DA,)),
        (ALL, PathState(), (SAY, RA, DA), ()),
        (ALL, ONE_ANSWERED, (), (QT,)),
        (ALL, ONE_ANSWERED, (QT,), (SA,)),
        (ALL, ONE_ANSWERED, (QT, SA), ()),
        (ALL, ONE_REPEAT, (), (RA,)),
        (ALL, TWO_REPEATS, (), (SA,)),
    ],
)
def test_legal_actions(actions, state, dead, legal):
    assert Airrag(actions=actions).actions_after(state, frozenset(dead)) == legal


def step(state, action, chance):
    if action == SAY:
        return state.with_plan(tuple(f"q{n} {chance.random()}" for n in range(chance.randrange(4))), QUESTION)
    if action == RA:
        return state.with_answer(state.pending[0] if state.pending else QUESTION, "x", ranked("ab"))
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
    assert len(taken) <= (9 if is_lite else 10)
    assert max(state.count(RA), state.count(QT)) <= 4
    assert not {(RA, RA), (QT, QT)} & {*pairwise(taken)}
    assert taken[-1] == SA


def test_equal_paths_have_equal_keys():
    one, other, third = (
        planned(query).with_final_answer(SA, answer)
        for query, answer in (("The Po", "Turin."), ("po?", "the turin"), ("Arno", "Turin."))
    )
    assert one.key == other.key != third.key
