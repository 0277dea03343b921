"""The module in training: an adapter as peft computes it, the right weights, no chance."""

import pytest
import torch

from askance.training.reader.network import TrainableModel
from askance.training.reader.packing import lone_rows
from tests.models.tiny import tiny_module
from tests.tolerances import assert_near, near, tolerance
from tests.training.reader.encoded import VOCABULARY, alone, full_settings, some_lessons, trainee

IDS = torch.arange(3, 40)[None]


def adapted(model_type, **settings):
    module = tiny_module(model_type, vocabulary=VOCABULARY)
    student = TrainableModel(module, full_settings(method="lora", rank=4, alpha=8, **settings))
    with torch.no_grad():  # as if it had learned: a fresh adapter adds nothing
        for name, weights in student.trainable.items():
            if "lora_B" in name:
                weights.normal_(std=0.1, generator=torch.Generator().manual_seed(1))
    return student


def gradients(student, logits):
    student.module.zero_grad()
    logits.square().sum().backward()
    return {name: weights.grad.clone() for name, weights in student.trainable.items()}


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "gpt2"])
def test_an_adapter_computes_what_peft_does(model_type):
    """Outputs and gradients; qwen2 has biases, gpt2 layers of another class, which are left to peft."""
    from peft.tuners.lora import Linear

    student = adapted(model_type)
    found = student.module(input_ids=IDS).logits
    found_gradients = gradients(student, found)
    own = [layer for layer in student.module.modules() if isinstance(layer, Linear)]
    assert own
    assert any("forward" in vars(layer) for layer in own) == (model_type != "gpt2")
    for layer in own:
        vars(layer).pop("forward", None)
    expected = student.module(input_ids=IDS).logits
    assert_near(found, expected, "two layers")
    for name, gradient in gradients(student, expected).items():
        scale = float(gradient.abs().max())
        assert_near(found_gradients[name] / scale, gradient / scale, "two layers")


def test_a_fresh_adapter_changes_nothing_and_stands_beside_every_linear_layer_but_the_last():
    plain = tiny_module("llama", vocabulary=VOCABULARY)(input_ids=IDS).logits
    student = TrainableModel(
        tiny_module("llama", vocabulary=VOCABULARY), full_settings(method="lora", rank=4)
    )
    assert_near(student.module(input_ids=IDS).logits, plain, "two layers")
    places = {name.split("layers.")[-1].split(".lora")[0].partition(".")[2] for name in student.trainable}
    projections = ("q_proj", "k_proj", "v_proj", "o_proj")
    assert places == {f"self_attn.{name}" for name in projections} | {
        f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")
    }
    assert len(student.trainable) == 2 * 7 * 2
    assert all(weights.dtype == torch.float32 for weights in student.trainable.values())


def test_the_seed_makes_the_first_weights():
    def first(seed):
        student = TrainableModel(tiny_module("llama"), full_settings(method="lora", rank=4, seed=seed))
        return next(iter(student.trainable.values()))

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))


def test_all_weights_are_trained_or_none_of_the_base():
    whole = trainee("llama")
    assert set(whole.trainable) == {name for name, _ in whole.module.named_parameters()}
    student = adapted("llama")
    before = {name: each.clone() for name, each in student.module.state_dict().items() if "lora_" not in name}
    optimizer = torch.optim.AdamW(student.trainable.values(), lr=0.1)
    student.loss(lone_rows(some_lessons(1))[0]).backward()
    optimizer.step()
    after = student.module.state_dict()
    assert before
    assert all(torch.equal(after[name], weights) for name, weights in before.items())


@pytest.mark.parametrize("model_type", ["gpt2", "gemma2", "mamba"])
def test_models_of_other_kinds_lose_what_they_lose_by_the_plain_way(model_type):
    """Gpt2 would drop at random in training mode, gemma2 changes its logits at the end, mamba has no mask."""
    sizes = {"gemma2": {"head_dim": 8}, "mamba": {"state_size": 4}}.get(model_type, {})
    module = tiny_module(model_type, vocabulary=VOCABULARY, **sizes)
    student = TrainableModel(module, full_settings())
    (lesson,) = some_lessons(1)
    assert_near(student.losses(lone_rows([lesson])[0]), alone(module, lesson), "two layers")


def test_the_loss_weighs_each_goal():
    student = trainee()
    (row,) = lone_rows(some_lessons(1))
    number = len(row.goals)
    assert student.loss(row).item() == near(
        student.losses(row).sum().item() * number**-0.5, "formula", "float32"
    )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_precision_is_the_one_that_is_stated(precision):
    student = trainee(precision=precision)
    (row,) = lone_rows(some_lessons(1))
    expected = alone(student.module, row.lessons[0])
    found = student.losses(row).detach()
    assert student.place == f"cpu in {precision}"
    gap = float((found - expected).detach().abs().max())
    assert (gap <= float(expected.detach().max()) * tolerance("float32", "two layers")) == (
        precision == "float32"
    )


@pytest.mark.parametrize("quick", [True, False])
def test_auto_is_float32_on_every_cpu(monkeypatch, quick):
    """Whatever the processor is quick in: the same command gives the same weights elsewhere."""
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: quick, raising=False)
    assert trainee(precision="auto").place == "cpu in float32"
    settings = full_settings(precision="auto")
    assert [settings.settled(device).precision for device in ("cpu", "cuda")] == ["float32", "bfloat16"]
    assert full_settings(precision="bfloat16").settled("cpu").precision == "bfloat16"
