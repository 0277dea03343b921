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


def test_sequences_are_computed_side_by_side():
    backend, engine = make_engine()
    first, second = run_to_end(engine, FakeRequest((5, 6, 7), 4), FakeRequest((8, 9), 2))
    assert first.written == alone((5, 6, 7), 4)
    assert second.written == alone((8, 9), 2)
    assert backend.passes == [[3, 2], [1, 1], [1], [1]]
    assert backend.slots == []


def test_a_long_prompt_takes_several_passes_beside_what_runs(monkeypatch):
    monkeypatch.setattr(module, "MAX_PREFILL_TOKENS", 10)
    backend, engine = make_engine()
    run_to_end(engine, FakeRequest((5, 6), 5), FakeRequest(tuple(range(100, 125)), 1))
    assert backend.passes == [[2, 8], [1, 10], [1, 7], [1], [1]]


def test_what_logits_are_wanted_after_is_computed_in_one_pass(monkeypatch):
    monkeypatch.setattr(module, "MAX_PREFILL_TOKENS", 10)
    backend, engine = make_engine()
    run_to_end(
        engine,
        FakeRequest(tuple(range(100, 114)), 1, num_logits=6),
        FakeRequest(tuple(range(200, 212)), 1, num_logits=12),
    )
    assert backend.passes == [[8], [6], [12]]


def test_what_prompts_share_is_computed_once():
    backend, engine = make_engine()
    shared = tuple(range(100, 140))
    first, second = run_to_end(engine, FakeRequest((*shared, 5)), FakeRequest((*shared, 6)))
    assert (first.num_cached, second.num_cached) == (0, 40)
    assert backend.passes == [[41], [1, 1], [1, 1], [1]]


def test_generated_tokens_are_in_the_prefix_cache():
    _, engine = make_engine()
    prompt = tuple(range(100, 120))
    (first,) = run_to_end(engine, FakeRequest(prompt, 9))
    (second,) = run_to_end(engine, FakeRequest((*prompt, *first.written[:7], 3)))
    assert second.num_cached == 27
    (same,) = run_to_end(engine, FakeRequest(prompt))
    assert same.num_cached == 19


def test_attention_is_given_after_the_prompt():
    _, engine = make_engine()
    (request,) = run_to_end(engine, FakeRequest((5, 6), wants_attention=True))
    assert request.is_done


def test_each_generated_token_takes_a_pass_and_is_counted():
    backend, engine = make_engine()
    run_to_end(engine, FakeRequest((5, 6), 40))
    assert backend.passes == [[2], *[[1]] * 39]
    assert engine.num_computed_tokens == 2 + 39


def test_no_more_run_than_there_is_room_for():
    backend, engine = make_engine(tokens=32)
    requests = [FakeRequest((number, 5, 6, 7), 6) for number in range(10, 17)]
    for request in requests:
        engine.add_request(request)
    most = 0
    while not engine.is_idle:
        step(engine)
        most = max(most, len(backend.slots))
    assert most == 3
    assert all(request.is_done for request in requests)


def test_where_nothing_is_shared_each_is_computed_from_its_beginning():
    backend, engine = make_engine(max_running=1)
    backend.can_batch = False
    first, second = run_to_end(engine, FakeRequest(tuple(range(40))), FakeRequest(tuple(range(40))))
    assert (first.num_cached, second.num_cached) == (0, 0)
    assert [sum(each) for each in backend.passes].count(40) == 2
    assert backend.cache.num_tokens == 0


def test_more_than_there_can_be_room_for_fails_with_the_numbers():
    _, engine = make_engine(tokens=32)
    (request,) = run_to_end(engine, FakeRequest(tuple(range(40))))
    (error,) = request.ends
    assert isinstance(error, ModelFailure)
    assert "keys and values of 43 tokens do not fit into the memory for 32" in str(error)


def test_a_pass_that_breaks_is_tried_again_one_by_one():
    backend, engine = make_engine()
    backend.breaks_on = {66}
    good, bad, other = run_to_end(engine, FakeRequest((5, 6)), FakeRequest((65, 66)), FakeRequest((7, 8)))
    assert good.is_done
    assert other.is_done
    assert [str(error) for error in bad.ends] == ["out of order"]
    assert backend.slots == []


def test_what_a_sequence_does_with_its_logits_is_its_own_affair():
    backend, engine = make_engine()
    bad = FakeRequest((5, 6))
    bad.take = lambda fed, num_cached: 1 / 0
    good, _ = run_to_end(engine, FakeRequest((7, 8)), bad)
    assert good.is_done
    assert isinstance(bad.ends[0], ZeroDivisionError)
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
    assert second.ends == []
    step(engine)
    assert first.is_done
    backend.opens = True
    run_to_end(engine)
    assert second.is_done


def test_where_there_is_no_memory_at_all_it_fails():
    backend, engine = make_engine()
    backend.opens = False
    (request,) = run_to_end(engine, FakeRequest((5, 6)))
    assert [str(error) for error in request.ends] == ["out of memory"]


@settings(max_examples=150, stateful_step_count=60, deadline=None)
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
