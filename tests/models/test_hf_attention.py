"""Captured attention equals eager attention, and capturing does not change what the model computes."""

from functools import cache

import pytest
import torch
from tests.models.tiny import tiny_module
from tests.tolerances import assert_near

from askance.inference.batch import Batch
from askance.models.hf.attention import ATTENTION_NAME
from askance.models.hf.network import Network

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
    """The attention and logits over PROMPT + MORE."""
    model_type, settings = ARCHITECTURES[name]
    reference = tiny_module(model_type, **settings)
    reference.set_attn_implementation("eager")
    with torch.inference_mode():
        ids = torch.tensor([PROMPT + MORE])
        expected = reference(ids, output_attentions=True, use_cache=False)
    return expected.attentions[-1][0].numpy(), expected.logits[0]


@pytest.fixture(params=ARCHITECTURES)
def both(request):
    """The network under test, and the attention and logits of eager attention over PROMPT + MORE."""
    model_type, settings = ARCHITECTURES[request.param]
    network = Network(tiny_module(model_type, **settings), model_type)
    assert network.attention_layer == 1
    assert network.can_share
    return network, *by_eager_attention(request.param)


class Fixed:
    """A request whose text is known: keeps what it is given."""

    num_logits, wants_attention, is_abandoned = 1, True, False

    def __init__(self, prompt, more=MORE):
        self.ids, self.max_tokens = list(prompt), len(prompt) + len(more)
        self.more, self.logits, self.rows, self.num_reused = list(more), [], [], 0

    def take(self, fed, num_reused):
        self.num_reused = num_reused
        self.logits.append(fed.logits[-1].logits)
        self.rows += fed.attention
        if not self.more:
            return False
        self.ids.append(self.more.pop(0))
        return True


def batch_of(network):
    network.budget_tokens = 10**6
    return Batch(network)


def computed(network, *requests):
    batch = batch_of(network)
    for request in requests:
        batch.put(request)
    while not batch.is_idle:
        for _, error in batch.step():
            if error is not None:
                raise error
    return batch


def check(request, weights, logits):
    for at, (last, expected) in enumerate(zip(request.logits, logits[len(PROMPT) - 1 :], strict=True)):
        assert_near(last, expected, "two layers")
        if at:
            tokens = len(PROMPT) + at
            assert_near(request.rows[at - 1], weights[:, tokens - 1, :tokens], "two layers")


def test_prefill_agrees_with_eager(both):
    network, weights, _ = both
    assert_near(network.attend(PROMPT + MORE), weights, "two layers")


def test_decoding_agrees_with_eager(both):
    network, weights, logits = both
    request = Fixed(PROMPT)
    computed(network, request)
    check(request, weights, logits)


def test_others_beside_it_change_nothing(both):
    network, weights, logits = both
    request, others = Fixed(PROMPT), [Fixed(range(3, 60)), Fixed([*PROMPT[:7], 9, 9]), Fixed([4], [])]
    computed(network, others[0], request, *others[1:])
    check(request, weights, logits)


def test_a_prompt_in_pieces_gives_the_same(both, monkeypatch):
    network, weights, logits = both
    monkeypatch.setattr("askance.inference.batch.PASS_TOKENS", 5)
    request = Fixed(PROMPT)
    computed(network, request, Fixed(range(40, 49)))
    check(request, weights, logits)


def test_what_is_known_is_not_computed_again(both):
    network, weights, logits = both
    first, request = Fixed([*PROMPT[:6], 7, 8, 9]), Fixed(PROMPT)
    batch = computed(network, first)
    batch.put(request)
    while not batch.is_idle:
        batch.step()
    assert request.num_reused == 6
    check(request, weights, logits)


@pytest.mark.parametrize("earlier", [MORE, [*MORE[:3], 30, 40, 50]], ids=["right", "wrong at last"])
def test_tokens_that_were_guessed_give_the_same(both, earlier):
    network, weights, logits = both
    batch = computed(network, Fixed(PROMPT, earlier))
    request, passes = Fixed(PROMPT), 0
    batch.put(request)
    batch.put(Fixed([*PROMPT[:7], 9, 9]))
    while not batch.is_idle:
        batch.step()
        passes += 1
    check(request, weights, logits)
    assert passes < 1 + len(MORE)
    assert earlier == MORE or batch.num_missed >= 3


def test_one_at_a_time_gives_the_same(both):
    network, weights, logits = both
    request = Fixed(PROMPT)
    alone = Network(network.module, "alone", together=False)
    computed(alone, request, Fixed([*PROMPT[:7], 9, 9]))
    check(request, weights, logits)


def test_a_pass_that_breaks_spoils_nothing(both, monkeypatch):
    network, weights, logits = both
    compute, calls = network.module.forward, []

    def breaking(*given, **options):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("out of memory")
        return compute(*given, **options)

    monkeypatch.setattr(network.module, "forward", breaking)
    request, other = Fixed(PROMPT), Fixed([*PROMPT[:7], 9, 9])
    batch = batch_of(network)
    batch.put(request)
    batch.put(other)
    ended = [over for _ in range(40) for over in batch.step()]
    assert [error for _, error in ended] == [None, None]
    check(request, weights, logits)


def test_where_memory_runs_out_what_was_found_for_a_text_goes_too(both, monkeypatch):
    network, weights, logits = both
    pool = network._pool
    batch = computed(network, Fixed([*PROMPT[:7], 8]))
    take = pool.take

    def no_room_beside_others(num_tokens):
        if pool.layers:
            raise RuntimeError("out of memory")
        return take(num_tokens)

    monkeypatch.setattr(pool, "take", no_room_beside_others)
    request = Fixed(PROMPT)
    batch.put(request)
    assert [error for _ in range(40) for _, error in batch.step()] == [None]
    check(request, weights, logits)


@pytest.mark.parametrize("model_type", ["bloom", "falcon"])
def test_a_model_beside_the_interface_has_no_attention_but_works(model_type):
    module = tiny_module(model_type, n_layer=2, n_head=4)
    network = Network(module, model_type)
    assert network.attention_layer is None
    assert not network.can_share
    request = Fixed(PROMPT)
    request.wants_attention = False
    computed(network, request, Fixed(range(3, 9), []))
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
    network = Network(tiny_module("llama", rope_parameters=rope), "llama")
    assert not network.can_share


def test_attention_sinks_are_left_to_their_own_implementation():
    sinks = {"head_dim": 8, "num_local_experts": 4, "layer_types": ["full_attention"] * 2}
    module = tiny_module("gpt_oss", **sinks)
    network = Network(module, "sinks")
    assert module.config._attn_implementation != ATTENTION_NAME
    assert network.attention_layer is None
