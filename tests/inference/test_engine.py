"""Continuous batching: admission, prefill, prefix reuse and isolation of sequences."""

import weakref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from askance.core.errors import ModelFailure
from askance.inference import engine as module
from askance.inference.engine import LLMEngine
from tests.inference.fake_backend import FakeBackend, FakeRequest, next_id


def alone(prompt, num_new=3):
    ids = list(prompt)
    for _ in range(num_new):
        ids.append(next_id(ids))
    return ids[len(prompt) :]


def run_to_end(engine, *sequences):
    for sequence in sequences:
        engine.add_request(sequence)
    for _ in range(1000):
        if engine.is_idle:
            return sequences
        step(engine)
    pytest.fail("never ends")


def step(engine):
    for sequence, error in engine.step():
        assert not isinstance(error, AssertionError), error
        sequence.ends.append(error)


def make_engine(tokens=10_000, **options):
    backend = FakeBackend(tokens)
    return backend, LLMEngine(backend, **options)


PASSES = {
    "side by side": (None, [((5, 6, 7), 4), ((8, 9), 2)], [0, 0], [[3, 2], [1, 1], [1], [1]]),
    "a pass for each generated token": (None, [((5, 6), 40)], [0], [[2], *[[1]] * 39]),
    "a long prompt in several passes beside what runs": (
        10,
        [((5, 6), 5), (range(100, 125), 1)],
        [0, 0],
        [[2, 8], [1, 10], [1, 7], [1], [1]],
    ),
    "what logits are wanted after in one pass": (
        10,
        [(range(100, 114), 1, 6), (range(200, 212), 1, 12)],
        [0, 0],
        [[8], [6], [12]],
    ),
    "what prompts share once": (
        None,
        [((*range(100, 140), 5), 3), ((*range(100, 140), 6), 3)],
        [0, 40],
        [[41], [1, 1], [1, 1], [1]],
    ),
    "with attention": (None, [((5, 6), 3, 1, True)], [0], [[2], [1], [1]]),
}


@pytest.mark.parametrize(("most", "requests", "cached", "passes"), PASSES.values(), ids=PASSES)
def test_what_is_computed_in_which_pass(monkeypatch, most, requests, cached, passes):
    if most:
        monkeypatch.setattr(module, "MAX_PREFILL_TOKENS", most)
    backend, engine = make_engine()
    done = run_to_end(engine, *(FakeRequest(tuple(prompt), *others) for prompt, *others in requests))
    assert [request.written for request in done] == [alone(each.prompt, each.num_new) for each in done]
    assert [request.num_cached for request in done] == cached
    assert backend.passes == passes
    assert engine.num_computed_tokens == sum(map(sum, passes))
    assert backend.slots == []


def test_generated_tokens_are_in_the_prefix_cache():
    _, engine = make_engine()
    prompt = tuple(range(100, 120))
    (first,) = run_to_end(engine, FakeRequest(prompt, 9))
    (second,) = run_to_end(engine, FakeRequest((*prompt, *first.written[:7], 3)))
    assert second.num_cached == 27
    (same,) = run_to_end(engine, FakeRequest(prompt))
    assert same.num_cached == 19


def test_no_more_run_than_there_is_room_for():
    backend, engine = make_engine(tokens=32)
    requests = [FakeRequest((number, 5, 6, 7), 6) for number in range(10, 17)]
    run_to_end(engine, *requests)
    assert max(map(len, backend.passes)) == 3
    assert all(request.is_done for request in requests)


def test_where_nothing_is_shared_each_is_computed_by_itself_from_its_beginning():
    backend, engine = make_engine()
    backend.can_batch = False
    first, second = run_to_end(engine, FakeRequest(tuple(range(40))), FakeRequest(tuple(range(40))))
    assert (first.num_cached, second.num_cached) == (0, 0)
    assert sorted(backend.passes) == [[1]] * 4 + [[40]] * 2
    assert backend.cache.num_tokens == 0


def fails_to_take(fed, num_cached):
    raise ZeroDivisionError("of its own")


@pytest.mark.parametrize(
    ("bad", "changes", "told"),
    [
        (FakeRequest(tuple(range(40))), {}, "keys and values of 43 tokens do not fit into the memory for 32"),
        (FakeRequest((65, 66)), {"breaks_on": {66}}, "out of order"),
        (FakeRequest((5, 6)), {"opens": False}, "out of memory"),
        (FakeRequest((5, 6)), {"take": fails_to_take}, "of its own"),
    ],
    ids=["too long", "a pass that breaks is tried again one by one", "no memory at all", "its own error"],
)
def test_an_error_is_that_of_one_request_alone(bad, changes, told):
    backend, engine = make_engine(tokens=32)
    for name, value in changes.items():
        setattr(bad if name == "take" else backend, name, value)
    others = [FakeRequest((5, 6)), FakeRequest((7, 8))]
    run_to_end(engine, others[0], bad, others[1])
    (error,) = bad.ends
    assert told in str(error)
    assert isinstance(error, ModelFailure) == (told.startswith("keys"))
    assert [request.is_done for request in others] == [backend.opens] * 2
    assert backend.slots == []


def test_the_memory_of_a_broken_pass_is_free_when_its_texts_are_tried_alone():
    class Tensor:
        pass

    backend, engine = make_engine()
    forward, held, alive = backend.forward, [], []

    def full(feeds):
        if len(feeds) > 1:
            tensor = Tensor()
            held.append(weakref.ref(tensor))
            raise RuntimeError("out of memory")
        alive.append(held[-1]() is not None)
        return forward(feeds)

    backend.forward = full
    run_to_end(engine, FakeRequest((5, 6), 1), FakeRequest((7, 8), 1))
    assert alive == [False, False]


def test_where_there_is_less_memory_than_expected_it_waits_for_what_runs():
    backend, engine = make_engine()
    first, second = FakeRequest((5, 6), 3), FakeRequest((7, 8))
    engine.add_request(first)
    step(engine)
    backend.opens = False
    engine.add_request(second)
    step(engine)
    step(engine)
    assert (first.is_done, second.ends) == (True, [])
    backend.opens = True
    run_to_end(engine)
    assert second.is_done


@settings(max_examples=100, stateful_step_count=50, deadline=None)
class Schedules(RuleBasedStateMachine):
    """Sequences arrive, are abandoned and fail in any order; the others generate the same as alone."""

    def __init__(self):
        super().__init__()
        self.backend, self.engine = make_engine(tokens=100, max_running=4)
        self.requests = []

    @rule(
        shared=st.integers(0, 40),
        own=st.lists(st.integers(100, 104), min_size=1, max_size=20),
        num_new=st.integers(1, 12),
        breaks=st.booleans(),
    )
    def ask(self, shared, own, num_new, breaks):
        request = FakeRequest((*range(shared), *own, *((666,) if breaks else ())), num_new)
        self.requests.append(request)
        self.engine.add_request(request)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def abandon(self, data):
        data.draw(st.sampled_from(self.requests)).is_abandoned = True

    @rule(breaks=st.booleans())
    def step_once(self, breaks):
        self.backend.breaks_on = {666} if breaks else set()
        step(self.engine)

    @invariant()
    def memory_is_within_budget(self):
        assert self.backend.num_reserved + self.backend.cache.num_tokens <= 100

    def teardown(self):
        self.backend.breaks_on = set()
        run_to_end(self.engine)
        for request in self.requests:
            assert request.written == alone(request.prompt, request.num_new)[: len(request.written)]
            (end,) = request.ends
            assert request.is_done or request.is_abandoned or isinstance(end, RuntimeError | ModelFailure)
        assert self.backend.slots == []


test_schedules = Schedules.TestCase
