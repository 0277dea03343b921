"""The module in training: an adapter as peft computes it, the right weights, no chance."""

import pytest
import torch
from lab.tests.training.reader.encoded_examples import (
    VOCABULARY,
    alone,
    full_settings,
    some_examples,
    tiny_model,
)

from askance_lab.training.reader.packing import single_example_rows
from askance_lab.training.reader.trainable_model import TrainableModel
from tests.models.tiny import tiny_module
from tests.tolerances import assert_near, tolerance

IDS = torch.arange(3, 40)[None]


def adapted(model_type, **settings):
    module = tiny_module(model_type, vocabulary=VOCABULARY)
    model = TrainableModel(module, full_settings(method="lora", rank=4, alpha=8, **settings))
    with torch.no_grad():  # as if it had learned: a fresh adapter adds nothing
        for name, weights in model.trainable_weights.items():
            if "lora_B" in name:
                weights.normal_(std=0.1, generator=torch.Generator().manual_seed(1))
    return model


def gradients(model, logits):
    model.module.zero_grad()
    logits.square().sum().backward()
    return {name: weights.grad.clone() for name, weights in model.trainable_weights.items()}


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "gpt2"])
def test_an_adapter_computes_what_peft_does(model_type):
    """Outputs and gradients; qwen2 has biases, gpt2 layers of another class, which are left to peft."""
    from peft.tuners.lora import Linear

    model = adapted(model_type)
    found = model.module(input_ids=IDS).logits
    found_gradients = gradients(model, found)
    own = [layer for layer in model.module.modules() if isinstance(layer, Linear)]
    assert own
    assert any("forward" in vars(layer) for layer in own) == (model_type != "gpt2")
    for layer in own:
        vars(layer).pop("forward", None)
    expected = model.module(input_ids=IDS).logits
    assert_near(found, expected, "two layers")
    for name, gradient in gradients(model, expected).items():
        scale = float(gradient.abs().max())
        assert_near(found_gradients[name] / scale, gradient / scale, "two layers")


def test_a_fresh_adapter_changes_nothing_and_stands_beside_every_linear_layer_but_the_last():
    plain = tiny_module("llama", vocabulary=VOCABULARY)(input_ids=IDS).logits
    model = TrainableModel(tiny_module("llama", vocabulary=VOCABULARY), full_settings(method="lora", rank=4))
    assert_near(model.module(input_ids=IDS).logits, plain, "two layers")
    places = {
        name.split("layers.")[-1].split(".lora")[0].partition(".")[2] for name in model.trainable_weights
    }
    projections = ("q_proj", "k_proj", "v_proj", "o_proj")
    assert places == {f"self_attn.{name}" for name in projections} | {
        f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")
    }
    assert len(model.trainable_weights) == 2 * 7 * 2
    assert all(weights.dtype == torch.float32 for weights in model.trainable_weights.values())


@pytest.mark.parametrize("model_type", ["gpt2", "gemma2", "mamba"])
def test_models_of_other_kinds_lose_what_they_lose_by_the_plain_way(model_type):
    """Gpt2 would drop at random in training mode, gemma2 changes its logits at the end, mamba has no mask."""
    sizes = {"gemma2": {"head_dim": 8}, "mamba": {"state_size": 4}}.get(model_type, {})
    module = tiny_module(model_type, vocabulary=VOCABULARY, **sizes)
    model = TrainableModel(module, full_settings())
    (example,) = some_examples(1)
    assert_near(model.token_losses(single_example_rows([example])[0]), alone(module, example), "two layers")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_precision_is_the_one_that_is_stated(precision):
    model = tiny_model(precision=precision)
    (row,) = single_example_rows(some_examples(1))
    expected = alone(model.module, row.examples[0])
    found = model.token_losses(row).detach()
    assert model.device_description == f"cpu in {precision}"
    gap = float((found - expected).detach().abs().max())
    assert (gap <= float(expected.detach().max()) * tolerance("float32", "two layers")) == (
        precision == "float32"
    )


def test_auto_is_float32_on_every_cpu(monkeypatch):
    """The same command gives the same weights elsewhere, whatever a processor is quick in."""
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: True, raising=False)
    settings = full_settings(precision="auto")
    found = [settings.with_precision_for(device).precision for device in ("cpu", "cuda")]
    assert found == ["float32", "bfloat16"]
    assert full_settings(precision="bfloat16").with_precision_for("cpu").precision == "bfloat16"
