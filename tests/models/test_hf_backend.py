"""Batched passes use the layers of the module itself, and are exact in every precision."""

import pytest

pytest.importorskip("torch")

import torch
from tests.models.tiny import tiny_module
from tests.tolerances import assert_near
from torch import nn

from askance.inference.backend import StepInput
from askance.models.hf.backend import TorchBackend

BEGINNINGS = (9, 30, 4)
NUM_STEPS = 3


def texts_of(beginnings):
    return [
        [(7 * at + number) % 299 for at in range(begin + NUM_STEPS - 1)]
        for number, begin in enumerate(beginnings)
    ]


def computed(backend, *, wants_attention=False):
    """Return the outputs of batched passes: a prefill, then decode steps of one token."""
    assert backend.can_batch
    texts = texts_of(BEGINNINGS)
    slots = [backend.open(len(text)) for text in texts]
    found = []
    for step in range(NUM_STEPS):
        stops = [begin + step for begin in BEGINNINGS]
        starts = [0] * len(slots) if step == 0 else [stop - 1 for stop in stops]
        feeds = [
            StepInput(slot, start, text[start:stop], 1, wants_attention and step > 0)
            for slot, text, start, stop in zip(slots, texts, starts, stops, strict=True)
        ]
        found.append(backend.forward(feeds))
    for slot in slots:
        backend.close(slot)
    return found


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_logits_are_those_of_each_text_alone_in_other_precisions(dtype):
    module = tiny_module("qwen2").to(dtype)
    steps = computed(TorchBackend(module, "qwen2"))
    # Norms are computed in float32, also between weights in float64.
    name = "float32" if dtype == torch.float64 else str(dtype).removeprefix("torch.")
    for number, (text, begin) in enumerate(zip(texts_of(BEGINNINGS), BEGINNINGS, strict=True)):
        with torch.inference_mode():
            alone = module(torch.tensor([text])).logits[0, begin - 1 :]
        for step, expected in zip(steps, alone, strict=True):
            assert_near(step[number].logits[-1].logits, expected, "two layers", name)


def test_wanting_attention_changes_no_logit_in_a_coarse_precision():
    """The keys have large numbers, like Qwen2's: rounded scores would be far off."""
    module = tiny_module("qwen2")
    for layer in module.model.layers:
        layer.self_attn.q_proj.bias.data[7] = 30.0
        layer.self_attn.k_proj.bias.data[7] = 200.0
    backend = TorchBackend(module.to(torch.bfloat16), "qwen2")
    with_it, without = (
        [fed for step in computed(backend, wants_attention=wants) for fed in step] for wants in (True, False)
    )
    for one, other in zip(with_it, without, strict=True):
        assert torch.equal(one.logits[-1].logits, other.logits[-1].logits)
    assert sum(each.attention is not None for each in with_it) == len(BEGINNINGS) * (NUM_STEPS - 1)
    assert all(each.attention is None for each in without)


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3", "phi3"])
def test_every_product_is_the_layer_s_own(model_type):
    """So quantized layers, adapters and registered hooks take effect."""
    settings = {"head_dim": 8} if model_type == "qwen3" else {}
    module = tiny_module(model_type, **settings)
    backend = TorchBackend(module, model_type)
    linear = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    weights = {name: layer.weight.data_ptr() for name, layer in linear.items()}
    called = []
    for name, layer in linear.items():
        layer.register_forward_hook(lambda *_, name=name: called.append(name))
    computed(backend)
    assert sorted(called) == sorted([*linear] * NUM_STEPS)
    assert weights == {name: layer.weight.data_ptr() for name, layer in linear.items()}
