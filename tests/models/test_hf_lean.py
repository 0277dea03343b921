"""Llama and its kin give the same by few calls as through their modules."""

import pytest
import torch
from tests.models.tiny import tiny_module
from tests.tolerances import assert_near
from torch import nn
from torch.nn.functional import linear

from askance.models.hf import lean
from askance.models.hf.lean import LeanRows
from askance.models.hf.network import Network
from askance.models.hf.passes import ModuleRows, Pass
from askance.models.hf.products import Product, weights_in_front
from askance.runtime.backend import Feed

KIN = {
    "llama": ("llama", {}),
    "llama, biases": ("llama", {"attention_bias": True}),
    "llama, heads of another size": ("llama", {"head_dim": 12}),
    "llama, stretched positions": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
            }
        },
    ),
    "mistral, sliding window": ("mistral", {"sliding_window": 4}),
    "qwen2": ("qwen2", {}),
    "qwen2, embeddings of its own": ("qwen2", {"tie_word_embeddings": False}),
    "qwen3": ("qwen3", {"head_dim": 8}),
}  # fmt: skip
NUM_TEXTS = 6


@pytest.fixture(params=KIN.values(), ids=KIN.keys())
def kin(request):
    return request.param


@pytest.fixture
def network(kin):
    model_type, settings = kin
    return Network(tiny_module(model_type, **settings), model_type)


@pytest.fixture
def exact(kin):
    """The same model in double precision: in single, two ways of adding up differ as much as either errs."""
    model_type, settings = kin
    return Network(tiny_module(model_type, **settings).double(), model_type)


def computed(network, rows, beginnings, *, wants_attention=True):
    """Logits and attention of texts that begin so long, are read side by side and go on by a token or two."""
    backend = network.backend
    backend._rows = rows
    slots = [backend.open(80) for _ in beginnings]
    texts = [[(7 * at + number) % 299 for at in range(80)] for number in range(len(slots))]
    found = []
    for step in range(3):
        stops = [begin + step for begin in beginnings]
        starts = [0] * len(slots) if step == 0 else [stop - 1 for stop in stops]
        feeds = [
            Feed(slot, start, text[start:stop], 1, wants_attention and step > 0)
            for slot, text, start, stop in zip(slots, texts, starts, stops, strict=True)
        ]
        found += backend.forward(feeds)
    for slot in slots:
        backend.close(slot)
    return found


@pytest.mark.parametrize(
    "beginnings",
    [[5], [9, 2], [*range(3, 3 + NUM_TEXTS)], [1] * NUM_TEXTS, [70]],
    ids=lambda beginnings: f"{len(beginnings)} of {beginnings[0]}",
)
def test_logits_and_attention_are_those_of_the_module(network, exact, beginnings):
    assert isinstance(network.backend._rows, LeanRows)
    ours = computed(network, network.backend._rows, beginnings)
    theirs = computed(exact, ModuleRows(exact.module), beginnings)
    for one, other in zip(ours, theirs, strict=True):
        logits = other.logits[-1].logits.float()
        assert_near(one.logits[-1].logits, logits, "two layers")
        for mine, exactly in zip(one.attention, other.attention, strict=True):
            assert_near(mine, exactly, "two layers")


def test_no_weight_is_held_twice(network):
    ours, layer = network.backend._rows._layers[0], network.module.model.layers[0]
    attention, mlp = layer.self_attn, layer.mlp
    for product, parts in (
        (ours.query_key_value, (attention.q_proj, attention.k_proj, attention.v_proj)),
        (ours.gate_up, (mlp.gate_proj, mlp.up_proj)),
        (ours.down, (mlp.down_proj,)),
    ):
        shared = {part.weight.untyped_storage().data_ptr() for part in parts}
        assert shared == {product.weight.untyped_storage().data_ptr()}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions(dtype):
    network = Network(tiny_module("qwen2").to(dtype), "qwen2")
    assert isinstance(network.backend._rows, LeanRows)
    ours = computed(network, network.backend._rows, [*range(3, 3 + NUM_TEXTS)])
    theirs = computed(network, ModuleRows(network.module), [*range(3, 3 + NUM_TEXTS)])
    # Norms are computed in float32, also between weights in float64.
    name = "float32" if dtype == torch.float64 else str(dtype).removeprefix("torch.")
    for one, other in zip(ours, theirs, strict=True):
        assert_near(one.logits[-1].logits, other.logits[-1].logits, "two layers", name)


def test_wanting_attention_changes_no_logit_in_a_coarse_precision():
    """Keys of large numbers, as Qwen2's are: rounded scores would be far off."""
    module = tiny_module("qwen2")
    for layer in module.model.layers:
        layer.self_attn.q_proj.bias.data[7] = 30.0
        layer.self_attn.k_proj.bias.data[7] = 200.0
    network = Network(module.to(torch.bfloat16), "qwen2")
    assert isinstance(network.backend._rows, LeanRows)
    with_it, without = (
        computed(network, network.backend._rows, [9, 30, 4], wants_attention=wants) for wants in (True, False)
    )
    for one, other in zip(with_it, without, strict=True):
        assert torch.equal(one.logits[-1].logits, other.logits[-1].logits)
    assert sum(len(each.attention) for each in with_it) == 6
    assert not any(each.attention for each in without)


class Odd(nn.Linear):
    """Stands for quantised weights and adapters, which compute otherwise."""


def test_a_module_with_other_parts_is_left_to_itself():
    module = tiny_module("llama")
    down = module.model.layers[1].mlp.down_proj
    down.__class__ = Odd
    assert isinstance(Network(module, "odd").backend._rows, ModuleRows)


def test_a_module_that_computes_otherwise_is_left_to_itself(monkeypatch):
    """Whatever a module of a known kind may do beside: logits that differ decide."""
    monkeypatch.setattr(lean, "silu", torch.relu)
    assert isinstance(Network(tiny_module("llama"), "other").backend._rows, ModuleRows)


def test_a_module_that_somebody_watches_is_left_to_itself():
    """Hooks and replaced functions see nothing of what is computed from the weights."""
    module = tiny_module("llama")
    module.model.layers[1].mlp.register_forward_hook(lambda *_: None)
    assert isinstance(Network(module, "watched").backend._rows, ModuleRows)


def test_another_activation_is_left_to_itself():
    assert isinstance(Network(tiny_module("llama", hidden_act="gelu"), "gelu").backend._rows, ModuleRows)


@pytest.mark.parametrize("is_large", [True, False])
def test_weights_are_packed_by_the_size_of_the_model_and_not_by_free_memory(monkeypatch, is_large):
    module = tiny_module("llama")
    num_bytes = sum(weights.nbytes for weights in module.parameters())
    monkeypatch.setattr(lean, "MOST_PACKED_BYTES", num_bytes - 1 if is_large else num_bytes)
    rows = LeanRows(module, [None, None])
    layer = rows._layers[0]
    every = (layer.query_key_value, layer.attention_out, layer.gate_up, layer.down, rows._logits)
    assert [each.packs for each in every] == [not is_large] * 5


@pytest.mark.parametrize("form", [linear, weights_in_front])
def test_the_numbers_of_a_head_lie_side_by_side_in_whatever_form(monkeypatch, form):
    strides = []

    def attend(self, layer):
        strides.extend(each.stride(-1) for each in (layer.query, layer.key, layer.value))
        return attended(self, layer)

    network = Network(tiny_module("llama"), "llama")
    attended = Pass.attend
    monkeypatch.setattr(Pass, "attend", attend)
    monkeypatch.setattr(Product, "_without_bias", lambda self, x: form(x, self.weight))
    computed(network, network.backend._rows, [5, 3])
    assert set(strides) == {1}, "else stock attention takes its slow way"
