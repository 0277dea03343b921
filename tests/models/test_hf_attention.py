"""Captured attention equals eager attention, and capturing does not change what the model computes."""

from functools import cache

import pytest

pytest.importorskip("torch")

import torch
from tests.models.tiny import tiny_module
from tests.tolerances import assert_near

from askance.inference.engine import LLMEngine
from askance.models.hf.attention import ATTENTION_NAME
from askance.models.hf.backend import TorchBackend

SLIDING = {"sliding_window": 4}
MOE = {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}
MIXED = {"layer_types": ["full_attention", "sliding_attention"], "head_dim": 8}
STRETCHED = {
    "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
}  # fmt: skip
ARCHITECTURES = {
    "llama": ("llama", {}),
    "llama, grouped heads of one": ("llama", {"num_key_value_heads": 1}),
    "llama, biases": ("llama", {"attention_bias": True}),
    "llama, heads of another size": ("llama", {"head_dim": 12}),
    "llama, stretched positions": ("llama", {"rope_parameters": STRETCHED}),
    "qwen2": ("qwen2", {}),
    "qwen2, embeddings of its own": ("qwen2", {"tie_word_embeddings": False}),
    "qwen3": ("qwen3", {"head_dim": 8}),
    "qwen3_moe": ("qwen3_moe", MOE),
    "mistral, sliding window": ("mistral", SLIDING),
    "mixtral": ("mixtral", {"num_local_experts": 4}),
    "phi": ("phi", {}),
    "phi3": ("phi3", {}),
    "gpt2": ("gpt2", GPT2),
    "gpt2, scaled by layer": ("gpt2", GPT2 | {"scale_attn_by_inverse_layer_idx": True}),
    "gpt_neox": ("gpt_neox", {}),
    "opt": ("opt", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "olmo2": ("olmo2", {}),
    "granite": ("granite", {"attention_multiplier": 0.2}),
    "cohere": ("cohere", {}),
    "stablelm": ("stablelm", {}),
    "starcoder2": ("starcoder2", SLIDING),
    "gemma": ("gemma", {"head_dim": 8}),
    "gemma2, soft cap": ("gemma2", MIXED | SLIDING | {"attn_logit_softcapping": 0.5}),
    "gemma3, sliding last layer": ("gemma3_text", MIXED | SLIDING),
    "gemma3, full last layer": ("gemma3_text", SLIDING | MIXED | {"layer_types": MIXED["layer_types"][::-1]}),
}
PROMPT = [5, 17, 8, 99, 3, 250, 8, 41, 7, 7, 120, 64]
MORE = [9, 200, 31, 5, 18, 77]


@cache
def by_eager_attention(name):
    """Return the attention and logits of eager attention over PROMPT + MORE."""
    model_type, settings = ARCHITECTURES[name]
    reference = tiny_module(model_type, **settings)
    reference.set_attn_implementation("eager")
    with torch.inference_mode():
        ids = torch.tensor([PROMPT + MORE])
        expected = reference(ids, output_attentions=True, use_cache=False)
    return expected.attentions[-1][0].numpy(), expected.logits[0]


@pytest.fixture(params=ARCHITECTURES)
def both(request):
    """Return the backend under test, and the attention and logits of eager attention over PROMPT + MORE."""
    model_type, settings = ARCHITECTURES[request.param]
    backend = TorchBackend(tiny_module(model_type, **settings), model_type)
    assert backend.attention_layer == 1
    assert backend.can_batch
    return backend, *by_eager_attention(request.param)


class Fixed:
    """A request with a fixed text, which records its logits and attention."""

    num_logits, wants_attention, is_abandoned = 1, True, False

    def __init__(self, prompt, more=MORE):
        self.ids, self.max_tokens = list(prompt), len(prompt) + len(more)
        self.more, self.logits, self.rows, self.num_cached = list(more), [], [], 0

    def take(self, fed, num_cached):
        self.num_cached = num_cached
        self.logits.append(fed.logits[-1].logits)
        self.rows += [] if fed.attention is None else [fed.attention]
        if not self.more:
            return False
        self.ids.append(self.more.pop(0))
        return True


def engine_of(backend):
    backend.budget_tokens = 10**6
    return LLMEngine(backend)


def computed(backend, *requests):
    engine = engine_of(backend)
    for request in requests:
        engine.add_request(request)
    while not engine.is_idle:
        for _, error in engine.step():
            if error is not None:
                raise error
    return engine


def check(request, weights, logits):
    for at, (last, expected) in enumerate(zip(request.logits, logits[len(PROMPT) - 1 :], strict=True)):
        assert_near(last, expected, "two layers")
        if at:
            tokens = len(PROMPT) + at
            assert_near(request.rows[at - 1], weights[:, tokens - 1, :tokens], "two layers")


def test_prefill_agrees_with_eager(both):
    backend, weights, _ = both
    assert_near(backend.attention_map(PROMPT + MORE), weights, "two layers")


def test_decoding_agrees_with_eager(both):
    backend, weights, logits = both
    request = Fixed(PROMPT)
    computed(backend, request)
    check(request, weights, logits)


def test_others_beside_it_change_nothing(both):
    backend, weights, logits = both
    request, others = Fixed(PROMPT), [Fixed(range(3, 60)), Fixed([*PROMPT[:7], 9, 9]), Fixed([4], [])]
    computed(backend, others[0], request, *others[1:])
    check(request, weights, logits)


def test_a_prompt_in_pieces_gives_the_same(both, monkeypatch):
    backend, weights, logits = both
    monkeypatch.setattr("askance.inference.engine.MAX_PREFILL_TOKENS", 5)
    request = Fixed(PROMPT)
    computed(backend, request, Fixed(range(40, 49)))
    check(request, weights, logits)


def test_a_cached_prefix_is_not_computed_again(both):
    backend, weights, logits = both
    first, request = Fixed([*PROMPT[:6], 7, 8, 9]), Fixed(PROMPT)
    engine = computed(backend, first)
    engine.add_request(request)
    while not engine.is_idle:
        engine.step()
    assert request.num_cached == 6
    check(request, weights, logits)


def test_one_at_a_time_gives_the_same(both):
    backend, weights, logits = both
    request = Fixed(PROMPT)
    alone = TorchBackend(backend.module, "alone", batched=False)
    computed(alone, request, Fixed([*PROMPT[:7], 9, 9]))
    check(request, weights, logits)


def test_a_pass_that_breaks_spoils_nothing(both, monkeypatch):
    backend, weights, logits = both
    compute, calls = backend.module.forward, []

    def breaking(*given, **options):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("out of memory")
        return compute(*given, **options)

    monkeypatch.setattr(backend.module, "forward", breaking)
    request, other = Fixed(PROMPT), Fixed([*PROMPT[:7], 9, 9])
    engine = engine_of(backend)
    engine.add_request(request)
    engine.add_request(other)
    ended = [over for _ in range(40) for over in engine.step()]
    assert [error for _, error in ended] == [None, None]
    check(request, weights, logits)


def test_where_memory_runs_out_what_was_found_for_a_text_goes_too(both, monkeypatch):
    backend, weights, logits = both
    pool = backend._pool
    engine = computed(backend, Fixed([*PROMPT[:7], 8]))
    allocate = pool.allocate

    def no_room_beside_others(num_tokens):
        if pool.layers:
            raise RuntimeError("out of memory")
        return allocate(num_tokens)

    monkeypatch.setattr(pool, "allocate", no_room_beside_others)
    request = Fixed(PROMPT)
    engine.add_request(request)
    assert [error for _ in range(40) for _, error in engine.step()] == [None]
    check(request, weights, logits)


@pytest.mark.parametrize("model_type", ["bloom", "falcon"])
def test_a_model_beside_the_interface_has_no_attention_but_works(model_type):
    module = tiny_module(model_type, n_layer=2, n_head=4)
    backend = TorchBackend(module, model_type)
    assert backend.attention_layer is None
    assert not backend.can_batch
    request = Fixed(PROMPT)
    request.wants_attention = False
    computed(backend, request, Fixed(range(3, 9), []))
    with torch.inference_mode():
        expected = module(torch.tensor([PROMPT + MORE])).logits[0, len(PROMPT) - 1 :]
    assert_near(torch.stack(request.logits), expected, "two layers")


@pytest.mark.parametrize(
    "positions",
    [
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "longrope", "factor": 2.0, "short_factor": [1.0] * 4, "long_factor": [3.0] * 4,
         "original_max_position_embeddings": 256},
    ],
    ids=lambda positions: positions["rope_type"],
)  # fmt: skip
def test_texts_are_kept_apart_where_the_longest_would_move_the_others_positions(positions):
    rope = {"rope_theta": 10_000.0, **positions}
    backend = TorchBackend(tiny_module("llama", rope_parameters=rope), "llama")
    assert not backend.can_batch


def test_attention_sinks_are_left_to_their_own_implementation():
    sinks = {"head_dim": 8, "num_local_experts": 4, "layer_types": ["full_attention"] * 2}
    module = tiny_module("gpt_oss", **sinks)
    backend = TorchBackend(module, "sinks")
    assert module.config._attn_implementation != ATTENTION_NAME
    assert backend.attention_layer is None
