"""The llama.cpp backend: contexts grow as needed, and texts that are moved continue unchanged."""

import asyncio
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from tests.contracts.model_contract import computed, run
from tests.models.llama.calls import BOUND, ENTROPY, check_same, ids_of, write, written
from tests.tolerances import assert_near

from askance.inference import engine
from askance.inference.backend import StepInput
from askance.models.llama_cpp import LlamaModel, context
from askance.models.llama_cpp.backend import MAX_RUNNING, LlamaBackend
from askance.models.llama_cpp.weights import Weights

MOST, ONE = (MAX_RUNNING, 512), (1, 512)


@pytest.fixture
def models(fresh, sliding_file):
    """Return functions that make models: of each architecture, and with a cache apart for sliding windows."""
    return {
        "tiny": fresh,
        "with memory for 1024 tokens": lambda: fresh(memory_bytes=1024 * 128),
        "sliding": lambda: LlamaModel(Weights(sliding_file), name="sliding"),
    }


def raising(error):
    def broken(*_):
        raise error

    return broken


NO_MEMORY, REFUSED = raising(MemoryError()), raising(RuntimeError("another kind of memory"))


async def together(model, *calls):
    return await asyncio.gather(*(write(model, *call) for call in calls))


def alone(fresh, *calls):
    return [written(fresh(), *call) for call in calls]


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


def room(model):
    return len(model._backend._slots), model._backend._sequence_tokens


def numbers(generation):
    return [(token.id, token.entropy) for token in computed(generation)]


def test_what_moves_is_the_same_to_the_bit(fresh, monkeypatch):
    call, real, passes = (ids_of(0), 100), LlamaBackend.forward, []
    (expected,) = alone(fresh, call)

    def moving(self, inputs):
        passes.append(inputs)
        if not len(passes) % 10:
            grown = self._sequence_tokens + 256 * (len(passes) % 20 != 0)
            self._make_context(grown, 1 + len(passes) % 3)
        return real(self, inputs)

    monkeypatch.setattr(LlamaBackend, "forward", moving)
    (found,) = alone(fresh, call)
    assert len(passes) >= len(computed(expected)) == 100
    assert numbers(found) == numbers(expected)
    for one, other in zip(computed(found), computed(expected), strict=True):
        assert np.array_equal(one.attention, other.attention)


P = [(ids_of(number),) for number in range(MAX_RUNNING + 2)]
SHARED = [((*ids_of(0, 95), number), 12) for number in range(4, 9)]
LONG = [(ids_of(number, 300),) for number in range(4)]
FIRST = ids_of(0, 150)
SLIDING = [((*FIRST[:80], *ids_of(number, 60)),) for number in (1, 2, 3)]


def in_turn(*calls):
    return [[call] for call in calls]


def with_one_sequence(of, num_sequences, *others, real=context.Context._settings):
    return REFUSED() if num_sequences > 1 else real(of, num_sequences, *others)


SETTINGS, CACHE = "context.Context._settings", "backend.PREFIX_CACHE_TOKENS"
SAVE, RESTORE = "context.Context.save", "context.Context.restore"


@dataclass
class Company:
    """Waves of texts: those of one wave run together; the least that each wave reuses, in tens of tokens."""

    waves: list
    reused: tuple = (0,)
    room: tuple | None = ONE
    patches: dict = field(default_factory=dict)
    model: str = "tiny"


COMPANIES = {
    "one": Company([P[:1]]),
    "more than may run": Company([P], room=MOST),
    "more than the memory holds": Company([LONG], room=(2, 512), model="with memory for 1024 tokens"),
    "no memory for a second": Company([P[:3]], patches={SETTINGS: with_one_sequence}),
    "a prefix that moves as the context grows": Company(
        [SHARED[:1], [(ids_of(1, 490), 20)], SHARED[:1], SHARED[1:]], (0, 0, 9, 9), (4, 512)
    ),
    "a prompt whose sequence others took": Company(in_turn(*P[:3] * 2), (0, 0, 0, 9, 9, 9)),
    "a cache for two": Company(in_turn(*P[:5], P[2], P[0]), (0, 0, 0, 0, 0, 9, 0), patches={CACHE: 250}),
    "a prompt too long for the cache": Company(
        in_turn((ids_of(0, 60),), *LONG[1:3], (ids_of(3, 20),), (ids_of(0, 60),), LONG[1]),
        (0, 0, 0, 0, 5, 0),
        patches={CACHE: 100},
    ),
    "no memory to save": Company(in_turn(P[0], P[1], P[0]), (0, 0, 0), patches={SAVE: NO_MEMORY}),
    "no saving": Company(in_turn(P[0], P[1], P[0]), (0, 0, 0), patches={SAVE: REFUSED}),
    "no memory to restore": Company(in_turn(P[0], P[1], P[0]), (0, 0, 0), patches={RESTORE: NO_MEMORY}),
    "no restoring": Company(in_turn(P[0], P[1], P[0]), (0, 0, 0), patches={RESTORE: REFUSED}),
    "no moving to more sequences": Company(
        [*in_turn(P[0], P[1]), P[2:4], P[:1]], (0, 0, 0), None, {"context.SavedState.among": REFUSED}
    ),
    "a prefix beyond a sliding window": Company(
        [*in_turn((FIRST,), *SLIDING, (ids_of(5),), *SLIDING), SLIDING], (0, 8, 8, 8), None, model="sliding"
    ),
}


@pytest.mark.parametrize("company", COMPANIES.values(), ids=COMPANIES)
def test_a_text_is_the_same_in_any_company(models, monkeypatch, company):
    make = models[company.model]
    expected = [alone(make, *wave) for wave in company.waves]
    for target, value in company.patches.items():
        monkeypatch.setattr(f"askance.models.llama_cpp.{target}", value)
    model = make()
    found = [run(together(model, *wave)) for wave in company.waves]
    for ours, theirs in zip(found, expected, strict=True):
        check_same(ours, theirs)
    reused = [min(generation.reused_tokens for generation in wave) // 10 for wave in found]
    assert tuple(reused[: len(company.reused)]) == company.reused
    assert company.room in (None, room(model))


def test_a_cleared_cache_is_computed_again(fresh):
    model = fresh()
    for call in P[:2]:
        written(model, *call)
    run(model.clear_cache())
    assert max(written(model, *call).reused_tokens for call in P[:2]) <= 1


BEGUN = ((*FIRST, 5), 40)
ARRIVALS = {
    "longer": ("tiny", {"backend._GROWTH_TOKENS": 256}, (ids_of(0, 40), 120), (ids_of(1, 400),), [True]),
    "with attention": ("tiny", {}, (ids_of(0), 60, ENTROPY), (ids_of(1, 20),), [True]),
    "no moving": ("tiny", {RESTORE: REFUSED}, (ids_of(0, 40), 60, ENTROPY), (ids_of(1, 490), 10), [False]),
    "sequences made once it is idle": ("sliding", {}, BEGUN, (ids_of(1, 20), 3), [False, True]),
}


@pytest.mark.parametrize("arrival", ARRIVALS.values(), ids=ARRIVALS)
def test_a_text_that_arrives_while_another_runs(models, monkeypatch, arrival):
    """It waits only if the running text can't be moved to a context with more room."""
    name, patches, first, second, expected = arrival
    for target, value in patches.items():
        monkeypatch.setattr(f"askance.models.llama_cpp.{target}", value)
    model = models[name]()
    for ran_together in expected:
        found, together = run(after_it_began(model, first, second))
        assert together == ran_together
        check_same(found, alone(models[name], first, second))


def test_a_state_that_llama_cpp_does_not_write_whole_is_none(gguf_files, monkeypatch):
    made = context.Context(Weights(gguf_files["qwen"][0]), 1, 256, reads_attention=False)
    made.forward([0], [0], [[5, 6, 7]], [1])
    monkeypatch.setattr(context.llama, "llama_state_seq_get_data", lambda *_: 7)
    with pytest.raises(RuntimeError, match="keys and values can't be saved"):
        made.save(0)


def opened(of, *prompts):
    slots = []
    for ids in prompts:
        slots.append(of.open(200, ids[:-1]))
        of.forward([StepInput(slots[-1], 0, ids, 1, False)])
    return slots


def logits_after(of, slots, position):
    """Compute a token for each text, and return the logits."""
    inputs = [StepInput(slot, position, (20 + slot.num_prefix_tokens,), 1, False) for slot in slots]
    return [output.logits[0].logits for output in of.forward(inputs)]


@pytest.mark.parametrize("broken", [None, REFUSED, NO_MEMORY])
def test_texts_become_neighbours_when_one_between_them_ends(fresh, monkeypatch, broken):
    """One pass then computes them, or two if a text can't be copied. The finished prompt stays cached."""
    first, short, last = ids_of(0), ids_of(1, 60), ids_of(2)
    near_by, of = fresh()._backend, fresh()._backend
    expected = logits_after(near_by, opened(near_by, first, last), 100)
    slots, passes, real = opened(of, first, short, last), [], context.Context.forward
    of.close(slots.pop(1))
    monkeypatch.setattr(context.Context, "forward", lambda *args: passes.append(args[1]) or real(*args))
    if broken:
        monkeypatch.setattr(context.Context, "save", broken)
    found = logits_after(of, slots, 100)
    assert passes == ([[0], [2]] if broken else [[0, 1]])
    if not broken:
        assert all(map(np.array_equal, found, expected))
        assert of.num_cached_tokens(short) == 59
    for one, other in zip(found, expected, strict=True):
        assert_near(one, other, *BOUND)
    assert [slot.seq_id for slot in of._slots] == list(range(len(of._slots)))


def test_a_model_that_can_not_go_back_is_never_asked_to(fresh, monkeypatch):
    """A prompt that leaves a single token for its last pass is computed in this way."""
    starts, real = [], context.Context.truncate

    def noted(self, stream, start):
        starts.append(start)
        real(self, stream, start)

    monkeypatch.setattr(engine, "MAX_PREFILL_TOKENS", 16)
    call = ids_of(0, 33), 8, ENTROPY
    expected = alone(fresh, call)
    monkeypatch.setattr(Weights, "can_truncate", property(lambda _: False, lambda *_: None), raising=False)
    monkeypatch.setattr(context.Context, "truncate", noted)
    check_same(alone(fresh, call), expected)
    assert set(starts) == {0}
