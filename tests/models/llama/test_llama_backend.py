"""The llama.cpp backend: contexts grow as needed, and texts that are moved continue unchanged."""

import asyncio
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from tests.contracts.model_contract import computed, run
from tests.tolerances import assert_near, near

from askance.core.types import GenerateRequest, Raw, Sampling, Want
from askance.inference import engine
from askance.inference.backend import StepInput
from askance.models.llama_cpp import LlamaModel, backend, context
from askance.models.llama_cpp.backend import MAX_RUNNING, LlamaBackend
from askance.models.llama_cpp.weights import Weights

ALL = Want(entropy=True, attention="mean")
BOUND = "keys and values", "float16"


@pytest.fixture(params=["llama", "qwen"])
def fresh(request, gguf_files):
    """Return a function that makes models with an empty KV cache."""
    return lambda **options: LlamaModel(Weights(gguf_files[request.param][0]), name="tiny", **options)


def ids_of(number, length=100):
    return tuple(10 + (number * 31 + at * 7) % 200 for at in range(length))


async def write(model, ids, max_tokens=8, want=ALL):
    (generation,) = await model.generate(
        GenerateRequest(Raw((ids,)), Sampling(max_tokens), want, key=("streams",))
    )
    return generation


async def together(model, *calls):
    return await asyncio.gather(*(write(model, *call) for call in calls))


async def after_it_began(model, first, second):
    """Start the second call during the first; return both results, and whether a pass computed both.

    The first one is held in the middle until the second one waits for the engine.
    """
    real, is_waiting, ran_together = model._backend.forward, threading.Event(), False

    def forward(inputs):
        nonlocal ran_together
        if model.computed_tokens >= len(first[0]) + 5:
            assert is_waiting.wait(60)
        ran_together |= len(inputs) > 1
        return real(inputs)

    model._backend.forward = forward
    try:
        running = asyncio.create_task(write(model, *first))
        while model.computed_tokens < len(first[0]) + 5:
            await asyncio.sleep(0)
        other = asyncio.create_task(write(model, *second))
        for _ in range(10):
            await asyncio.sleep(0)
        is_waiting.set()
        return [await running, await other], ran_together
    finally:
        model._backend.forward = real


def check_same(found, expected):
    """Compare generations. In a batch, sums over float32 weights are added in another order."""
    for ours, theirs in zip(map(computed, found), map(computed, expected), strict=True):
        assert [token.id for token in ours] == [token.id for token in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.entropy == near(other.entropy, *BOUND)
            assert (one.attention is None) == (other.attention is None)
            if one.attention is not None:
                assert_near(one.attention, other.attention, *BOUND)


def alone(fresh, *calls):
    return [run(write(fresh(), *call)) for call in calls]


def room(model):
    return len(model._backend._slots), model._backend._sequence_tokens


def test_a_short_text_has_little_room(fresh):
    model = fresh()
    run(write(model, ids_of(0, 40)))
    assert room(model) == (1, 512)


def test_what_moves_is_the_same_to_the_bit(fresh, monkeypatch):
    call, real, passes = (ids_of(0), 100), LlamaBackend.forward, []
    (expected,) = alone(fresh, call)

    def moving(self, inputs):
        passes.append(inputs)
        if not len(passes) % 10:
            self._make_context(
                self._sequence_tokens + 256 if len(passes) % 20 else self._sequence_tokens,
                1 + len(passes) % 3,
            )
        return real(self, inputs)

    monkeypatch.setattr(LlamaBackend, "forward", moving)
    (found,) = alone(fresh, call)
    assert len(passes) >= len(computed(expected)) == 100
    for one, other in zip(computed(found), computed(expected), strict=True):
        assert (one.id, one.entropy) == (other.id, other.entropy)
        assert np.array_equal(one.attention, other.attention)


def test_each_running_text_gets_a_sequence(fresh):
    calls = [(ids_of(number), 30) for number in range(MAX_RUNNING + 2)]
    model = fresh()
    check_same(run(together(model, *calls)), alone(fresh, *calls))
    assert room(model) == (MAX_RUNNING, 512)


def test_a_longer_text_does_not_wait_for_one_that_runs(fresh, monkeypatch):
    monkeypatch.setattr(backend, "_GROWTH_TOKENS", 256)
    calls = (ids_of(0, 40), 120), (ids_of(1, 400),)
    model = fresh()
    found, ran_together = run(after_it_began(model, *calls))
    assert ran_together
    assert room(model) == (2, 512)
    check_same(found, alone(fresh, *calls))


def test_where_nothing_can_be_moved_it_waits(fresh, monkeypatch):
    calls = (ids_of(0, 40), 60, Want(entropy=True)), (ids_of(1, 490), 10)

    def refused(*_):
        raise RuntimeError("another kind of memory")

    monkeypatch.setattr(context.Context, "restore", refused)
    model = fresh()
    found, ran_together = run(after_it_began(model, *calls))
    assert not ran_together
    check_same(found, alone(fresh, *calls))


def test_prefixes_move_to_the_new_context(fresh):
    model, shared = fresh(), ids_of(0)
    first = run(write(model, (*shared, 7)))
    run(write(model, ids_of(1, 490), 20))  # needs more room
    again = run(write(model, (*shared, 7)))
    assert first.reused_tokens == 0
    assert again.reused_tokens >= 99
    check_same([again], [first])


def test_texts_share_a_prefix_while_a_context_is_made(fresh):
    shared = ids_of(0)
    calls = [((*shared, number), 12) for number in range(5, 9)]
    model = fresh()
    run(write(model, (*shared, 4)))
    found = run(together(model, *calls))
    assert min(generation.reused_tokens for generation in found) >= 99
    check_same(found, alone(fresh, *calls))


def test_what_was_held_for_a_text_that_left_is_the_same(fresh):
    shared = ids_of(0)
    expected = run(write(fresh(), (*shared, 5)))
    model = fresh()
    backend = model._backend
    run(write(model, (*shared, 4)))
    held = [*backend._slots[0].ids]
    first, second = (backend.open(200, held[:100]) for _ in range(2))
    assert [first.num_cached_tokens, second.num_cached_tokens] == [99, 99]
    backend.close(second)
    backend.close(first)
    backend._make_context(1024, 4)
    check_same([run(write(model, (*shared, 5)))], [expected])


def test_a_prompt_is_restored_after_others_took_its_sequence(fresh):
    prompts = [ids_of(number) for number in range(4)]
    model = fresh()
    first = [run(write(model, ids)) for ids in prompts]
    again = [run(write(model, ids)) for ids in prompts]
    assert room(model) == (1, 512)
    assert max(generation.reused_tokens for generation in first) <= 1
    assert min(generation.reused_tokens for generation in again) >= 98
    for one, other in zip(map(computed, first), map(computed, again), strict=True):
        assert [(token.id, token.entropy) for token in one] == [(token.id, token.entropy) for token in other]


def test_the_prefix_cache_has_bounds(fresh, monkeypatch):
    monkeypatch.setattr(backend, "PREFIX_CACHE_TOKENS", 250)
    model = fresh()
    for number in range(5):
        run(write(model, ids_of(number)))
    kept = [*map(len, model._backend._cache._blocks)]
    assert len(kept) == 2
    assert sum(kept) <= 250
    assert run(write(model, ids_of(2))).reused_tokens >= 98
    assert run(write(model, ids_of(0))).reused_tokens <= 1


def test_a_prompt_that_the_prefix_cache_can_not_hold_is_not_copied(fresh, monkeypatch):
    """It does not evict other prompts either."""
    monkeypatch.setattr(backend, "PREFIX_CACHE_TOKENS", 100)
    copied, real = [], context.Context.save
    monkeypatch.setattr(context.Context, "save", lambda *args: copied.append(args) or real(*args))
    model = fresh()
    for number, length in enumerate((60, 200, 200, 20)):
        run(write(model, ids_of(number, length)))
    assert [len(ids) // 10 for ids in model._backend._cache._blocks] == [6]
    assert len(copied) == 1


def _no_memory(*_):
    raise MemoryError


def _refused(*_):
    raise RuntimeError("llama.cpp refuses")


@pytest.mark.parametrize("broken", [_no_memory, _refused])
@pytest.mark.parametrize("part", ["save", "restore"])
def test_a_copy_that_can_not_be_made_is_read_again(fresh, monkeypatch, part, broken):
    """The prompt is computed again, which is only slower."""
    calls = [(ids_of(number),) for number in (0, 1, 0)]
    expected, model = alone(fresh, *calls), fresh()
    monkeypatch.setattr(context.Context, part, broken)
    found = [run(write(model, *call)) for call in calls]
    assert found[2].reused_tokens <= 1
    check_same(found, expected)


def _forward(of, slots, position):
    """Compute a token for each text, and return the logits."""
    inputs = [StepInput(slot, position, (20 + slot.num_prefix_tokens,), 1, False) for slot in slots]
    return [output.logits[0].logits for output in of.forward(inputs)]


def _opened(of, *prompts):
    slots = []
    for ids in prompts:
        slots.append(of.open(200, ids[:-1]))
        of.forward([StepInput(slots[-1], 0, ids, 1, False)])
    return slots


@pytest.mark.parametrize("broken", [None, _refused, _no_memory])
def test_texts_become_neighbours_when_one_between_them_ends(fresh, monkeypatch, broken):
    """One pass then computes them, or two if a text can't be copied. The finished prompt stays cached."""
    first, short, last = ids_of(0), ids_of(1, 60), ids_of(2)
    near_by, of = fresh()._backend, fresh()._backend
    expected = _forward(near_by, _opened(near_by, first, last), 100)
    slots, passes, real = _opened(of, first, short, last), [], context.Context.forward
    of.close(slots.pop(1))
    monkeypatch.setattr(context.Context, "forward", lambda *args: passes.append(args[1]) or real(*args))
    if broken:
        monkeypatch.setattr(context.Context, "save", broken)
    found = _forward(of, slots, 100)
    assert passes == ([[0], [2]] if broken else [[0, 1]])
    if not broken:
        assert all(map(np.array_equal, found, expected))
        assert of.num_cached_tokens(short) == 59
    for one, other in zip(found, expected, strict=True):
        assert_near(one, other, *BOUND)
    assert [slot.seq_id for slot in of._slots] == list(range(len(of._slots)))


@pytest.mark.parametrize("size", [0, 7])
def test_a_state_that_llama_cpp_does_not_write_whole_is_none(gguf_files, monkeypatch, size):
    made = context.Context(Weights(gguf_files["qwen"][0]), 1, 256, reads_attention=False)
    made.forward([0], [0], [[5, 6, 7]], [1])
    broken = SimpleNamespace(**vars(context.llama))
    broken.llama_state_seq_get_data = lambda *_: size
    monkeypatch.setattr(context, "llama", broken)
    with pytest.raises(RuntimeError, match="keys and values can't be saved"):
        made.save(0)


def test_a_cleared_cache_is_computed_again(fresh):
    model = fresh()
    for number in (0, 1, 0):
        run(write(model, ids_of(number)))
    run(model.clear_cache())
    assert max(run(write(model, ids_of(number))).reused_tokens for number in (0, 1)) <= 1


def test_what_was_saved_and_can_not_be_moved_is_read_again(fresh, monkeypatch):
    model = fresh()
    for number in range(2):
        run(write(model, ids_of(number)))

    def refused(*_):
        raise RuntimeError("another kind of memory")

    monkeypatch.setattr(context.SavedState, "among", refused)
    model._backend._make_context(512, 3)
    again = run(write(model, ids_of(0)))
    assert again.reused_tokens <= 1
    check_same([again], alone(fresh, (ids_of(0),)))


def test_a_model_that_can_not_go_back_is_never_asked_to(fresh, monkeypatch):
    """A prompt that leaves a single token for its last pass is computed in this way."""
    starts, real = [], context.Context.truncate

    def noted(self, stream, start):
        starts.append(start)
        real(self, stream, start)

    monkeypatch.setattr(engine, "MAX_PREFILL_TOKENS", 16)
    call = ids_of(0, 33), 8, Want(entropy=True)
    expected = run(write(fresh(), *call))
    never = property(lambda self: False, lambda self, can: None)
    monkeypatch.setattr(Weights, "can_truncate", never, raising=False)
    monkeypatch.setattr(context.Context, "truncate", noted)
    found = run(write(fresh(), *call))
    assert set(starts) == {0}
    check_same([found], [expected])


def test_attention_is_read_from_now_on(fresh):
    calls = (ids_of(0), 60, Want(entropy=True)), (ids_of(1, 20),)
    found, ran_together = run(after_it_began(fresh(), *calls))
    assert ran_together
    check_same(found, alone(fresh, *calls))


def test_no_memory_for_more_sequences(fresh, monkeypatch):
    """Running texts continue, and a text without room waits for them."""
    calls = [(ids_of(number), 30) for number in range(3)]
    expected, model = alone(fresh, *calls), fresh()
    real = context.Context._settings

    def scarce(self, num_sequences, *others):
        if num_sequences > 1:
            raise RuntimeError("no room")
        return real(self, num_sequences, *others)

    monkeypatch.setattr(context.Context, "_settings", scarce)
    check_same(run(together(model, *calls)), expected)
    assert room(model) == (1, 512)


def test_sequences_stay_within_the_memory(fresh):
    num_bytes = fresh()._weights.bytes_per_token
    model, calls = fresh(memory_bytes=1024 * num_bytes), [(ids_of(number, 300),) for number in range(4)]
    check_same(run(together(model, *calls)), alone(fresh, *calls))
    assert room(model) == (2, 512)


@pytest.fixture
def sliding(sliding_file):
    """Return a function that makes models with a separate cache for layers with a sliding window."""
    return lambda **options: LlamaModel(Weights(sliding_file), name="sliding", **options)


def test_a_prefix_beyond_a_sliding_window(sliding):
    """Saved keys and values lack those outside the window, which a text with a shared prefix needs."""
    first, calls = ids_of(0, 150), [((*ids_of(0, 150)[:80], *ids_of(number, 60)),) for number in (1, 2, 3, 1)]
    model = sliding()
    run(write(model, first))
    found = [run(write(model, *call)) for call in calls]
    assert min(generation.reused_tokens for generation in found) >= 80, "in its own stream it is all there"
    run(write(model, ids_of(5)))
    found += [run(write(model, *call)) for call in calls]
    found += run(together(model, *calls))
    check_same(found, alone(sliding, *calls, *calls, *calls))


def test_a_model_whose_texts_can_not_be_moved_gets_sequences_once_it_is_idle(sliding):
    """A running text makes the next one wait the first time, and never again."""
    calls = [((*ids_of(0, 150), number), 40) for number in range(5, 9)]
    model, expected = sliding(), alone(sliding, *calls)
    _, ran_together = run(after_it_began(model, calls[0], (ids_of(1, 20), 3)))
    assert not ran_together
    assert room(model) == (MAX_RUNNING, 512)
    _, ran_together = run(after_it_began(model, calls[0], (ids_of(1, 20), 3)))
    assert ran_together
    check_same(run(together(model, *calls)), expected)
