"""Captured attention equals eager attention, and capturing does not change what the model computes."""

import numpy as np
import pytest
import torch
from tests.models.tiny import tiny_module
from transformers.cache_utils import DynamicLayer

from askance.models.hf.attention import ATTENTION_NAME
from askance.models.hf.network import Context, Network

SLIDING = {"sliding_window": 4}
MOE = {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}
MIXED = {"layer_types": ["full_attention", "sliding_attention"], "head_dim": 8}
ARCHITECTURES = {
    "llama": ("llama", {}),
    "llama, grouped heads of one": ("llama", {"num_key_value_heads": 1}),
    "qwen2": ("qwen2", {}),
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


@pytest.fixture(params=ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def both(request):
    """The network under test, and the attention and logits of eager attention over PROMPT + MORE."""
    model_type, settings = request.param
    reference = tiny_module(model_type, **settings)
    reference.set_attn_implementation("eager")
    with torch.inference_mode():
        ids = torch.tensor([PROMPT + MORE])
        expected = reference(ids, output_attentions=True, use_cache=False)
    network = Network(tiny_module(model_type, **settings), model_type)
    assert network.attention_layer == 1
    return network, expected.attentions[-1][0].numpy(), expected.logits[0]


def test_prefill_agrees_with_eager(both):
    network, weights, _ = both
    with torch.inference_mode():
        captured = network.attend(PROMPT + MORE)
    np.testing.assert_allclose(captured, weights, atol=1e-5)


def test_cached_decoding_agrees_with_eager(both):
    network, weights, logits = both
    with torch.inference_mode():
        context, last, _ = network.prefill(PROMPT, lambda: None)
        torch.testing.assert_close(last[0], logits[len(PROMPT) - 1], atol=1e-4, rtol=1e-4)
        for at, token_id in enumerate(MORE, start=len(PROMPT)):
            last, row = network.feed_watched(context, token_id)
            np.testing.assert_allclose(row, weights[:, at, : at + 1], atol=1e-5)
            torch.testing.assert_close(last[0], logits[at], atol=1e-4, rtol=1e-4)


def test_a_prompt_in_pieces_gives_the_same(both, monkeypatch):
    network, weights, logits = both
    monkeypatch.setattr("askance.models.hf.network._PREFILL_TOKENS", 5)
    with torch.inference_mode():
        context, last, _ = network.prefill(PROMPT, lambda: None)
        torch.testing.assert_close(last[0], logits[len(PROMPT) - 1], atol=1e-4, rtol=1e-4)
        _, row = network.feed_watched(context, MORE[0])
    np.testing.assert_allclose(row, weights[:, len(PROMPT), : len(PROMPT) + 1], atol=1e-5)


def test_a_fork_goes_on_by_itself(both):
    network, _, logits = both
    with torch.inference_mode():
        context, _, _ = network.prefill(PROMPT, lambda: None)
        other = context.fork()
        network.feed(other, [1, 2, 3])
        last = network.feed(context, MORE)
    assert (context.num_tokens, other.num_tokens) == (18, 15)
    torch.testing.assert_close(last[0], logits[-1], atol=1e-4, rtol=1e-4)


def test_a_prompt_goes_on_from_what_it_shares_with_the_last(both):
    network, weights, logits = both
    with torch.inference_mode():
        network.prefill([*PROMPT[:6], 7, 8, 9], lambda: None)
        context, last, reused_tokens = network.prefill(PROMPT, lambda: None)
        is_plain = all(type(layer) is DynamicLayer for layer in context.cache.layers)
        assert reused_tokens == (6 if is_plain else 0)
        torch.testing.assert_close(last[0], logits[len(PROMPT) - 1], atol=1e-4, rtol=1e-4)
        _, row = network.feed_watched(context, MORE[0])
        np.testing.assert_allclose(row, weights[:, len(PROMPT), : len(PROMPT) + 1], atol=1e-5)
        assert network.prefill(PROMPT, lambda: None)[2] in (len(PROMPT) - 1, 0), "the last token is fed again"


def test_nothing_is_reused_after_a_pass_that_broke(both, monkeypatch):
    network, _, logits = both
    with torch.inference_mode():
        network.prefill(PROMPT, lambda: None)
        with monkeypatch.context() as patch:
            patch.setattr(network._module, "forward", lambda *_, **__: _break())
            with pytest.raises(RuntimeError):
                network.prefill([*PROMPT, *MORE], lambda: None)
        _, last, reused_tokens = network.prefill(PROMPT, lambda: None)
    assert reused_tokens == 0
    torch.testing.assert_close(last[0], logits[len(PROMPT) - 1], atol=1e-4, rtol=1e-4)


def _break():
    raise RuntimeError("out of memory")


@pytest.mark.parametrize("model_type", ["bloom", "falcon"])
def test_a_model_beside_the_interface_has_no_attention_but_works(model_type):
    network = Network(tiny_module(model_type, n_layer=2, n_head=4), model_type)
    assert network.attention_layer is None
    with torch.inference_mode():
        assert network.feed(Context(), PROMPT).shape == (1, 300)


def test_attention_sinks_are_left_to_their_own_implementation():
    sinks = {"head_dim": 8, "num_local_experts": 4, "layer_types": ["full_attention"] * 2}
    module = tiny_module("gpt_oss", **sinks)
    network = Network(module, "sinks")
    assert module.config._attn_implementation != ATTENTION_NAME
    assert network.attention_layer is None
