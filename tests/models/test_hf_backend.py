"""Test that torch computes the same as eager attention: alone, batched, in pieces and after failures.

Each architecture that can be batched is a tiny random model, which transformers computes as the reference.
The last tests are those of the KV pool: no cell is lost, and texts without a common prefix never share one.
"""

from functools import cache

import pytest

pytest.importorskip("torch")

import torch
from tests.models.tiny import tiny_module
from tests.tolerances import assert_near
from torch import nn

from askance.inference.engine import LLMEngine
from askance.models.hf.attention import ATTENTION_NAME
from askance.models.hf.backend import TorchBackend
from askance.models.hf.kv_cache import KVPool

SLIDING = {"sliding_window": 4}
MIXED = {"layer_types": ["full_attention", "sliding_attention"], "head_dim": 8}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}
STRETCHED = {
    "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
}  # fmt: skip
MOE = {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
ARCHITECTURES = {
    "llama": {},
    "llama, grouped heads of one": {"num_key_value_heads": 1},
    "llama, biases": {"attention_bias": True},
    "llama, heads of another size": {"head_dim": 12},
    "llama, stretched positions": {"rope_parameters": STRETCHED},
    "qwen2": {},
    "qwen2, untied embeddings": {"tie_word_embeddings": False},
    "qwen3": {"head_dim": 8},
    "qwen3_moe": MOE,
    "mistral, sliding window": SLIDING,
    "mixtral": {"num_local_experts": 4},
    "phi": {},
    "phi3": {},
    "gpt2": GPT2,
    "gpt2, scaled by layer": GPT2 | {"scale_attn_by_inverse_layer_idx": True},
    "gpt_neox": {},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "olmo2": {},
    "granite": {"attention_multiplier": 0.2},
    "cohere": {},
    "stablelm": {},
    "starcoder2": SLIDING,
    "gemma": {"head_dim": 8},
    "gemma2, soft cap": MIXED | SLIDING | {"attn_logit_softcapping": 0.5},
    "gemma3_text, sliding last layer": MIXED | SLIDING,
    "gemma3_text, full last layer": MIXED | SLIDING | {"layer_types": MIXED["layer_types"][::-1]},
}
PROMPT = [5, 17, 8, 99, 3, 250, 8, 41, 7, 7, 120, 64]
MORE = [9, 200, 31, 5, 18, 77]


class Fixed:
    """A request with a fixed text, which records its logits and attention."""

    num_logits, is_abandoned = 1, False

    def __init__(self, prompt=PROMPT, more=MORE, *, wants_attention=True):
        self.ids, self.max_tokens = list(prompt), len(prompt) + len(more)
        self.more, self.logits, self.rows, self.num_cached = list(more), [], [], 0
        self.wants_attention = wants_attention

    def take(self, fed, num_cached):
        self.num_cached = num_cached
        self.logits.append(fed.logits[-1].logits)
        self.rows += [] if fed.attention is None else [fed.attention]
        if not self.more:
            return False
        self.ids.append(self.more.pop(0))
        return True


def compute(engine, *requests):
    for request in requests:
        engine.add_request(request)
    while not engine.is_idle:
        assert [error for _, error in engine.step() if error is not None] == []


def engine_of(backend):
    backend.budget_tokens = 10**6
    return LLMEngine(backend)


class Case:
    """An architecture, with the attention and logits of eager attention over PROMPT + MORE."""

    def __init__(self, name):
        self.name, self.settings = name.split(",")[0], ARCHITECTURES[name]
        reference = tiny_module(self.name, **self.settings)
        reference.set_attn_implementation("eager")
        with torch.inference_mode():
            ids = torch.tensor([PROMPT + MORE])
            expected = reference(ids, output_attentions=True, use_cache=False)
        self.weights, self.logits = expected.attentions[-1][0].numpy(), expected.logits[0]

    def backend(self, *, batched=True):
        return TorchBackend(tiny_module(self.name, **self.settings), self.name, batched=batched)

    def check(self, request):
        assert_near(torch.stack(request.logits), self.logits[len(PROMPT) - 1 :], "two layers")
        assert len(request.rows) == len(MORE)
        for num_tokens, row in enumerate(request.rows, start=len(PROMPT) + 1):
            assert_near(row, self.weights[:, num_tokens - 1, :num_tokens], "two layers")


case_of = cache(Case)


@pytest.fixture(params=ARCHITECTURES)
def case(request):
    return case_of(request.param)


def test_a_text_alone_or_with_others_agrees_with_eager_attention(case):
    backend = case.backend()
    assert (backend.attention_layer, backend.can_batch) == (1, True)
    assert_near(backend.attention_map(PROMPT + MORE), case.weights, "two layers")
    others = [Fixed(range(3, 60)), Fixed([*PROMPT[:7], 9, 9]), Fixed([4], [])]
    alone, together, one_by_one = Fixed(), Fixed(), Fixed()
    compute(engine_of(backend), alone)
    compute(engine_of(case.backend()), others[0], together, *others[1:])
    compute(engine_of(case.backend(batched=False)), one_by_one, Fixed([*PROMPT[:7], 9, 9]))
    for request in (alone, together, one_by_one):
        case.check(request)


def test_a_prompt_in_pieces_or_after_a_cached_prefix_gives_the_same(case, monkeypatch):
    in_pieces, later, engine = Fixed(), Fixed(), engine_of(case.backend())
    compute(engine, Fixed([*PROMPT[:6], 7, 8, 9]))
    compute(engine, later)
    assert later.num_cached == 6
    monkeypatch.setattr("askance.inference.engine.MAX_PREFILL_TOKENS", 5)
    compute(engine_of(case.backend()), in_pieces, Fixed(range(40, 49)))
    for request in (later, in_pieces):
        case.check(request)


def test_a_pass_that_breaks_and_memory_that_runs_out_change_nothing(case, monkeypatch):
    backend, request, later = case.backend(), Fixed(), Fixed()
    forward, pool, calls = backend.module.forward, backend._pool, []
    allocate, engine = pool.allocate, engine_of(backend)

    def breaks_once(*args, **options):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("out of memory")
        return forward(*args, **options)

    def no_room_beside_others(num_tokens):
        if pool.layers:
            raise RuntimeError("out of memory")
        return allocate(num_tokens)

    monkeypatch.setattr(backend.module, "forward", breaks_once)
    compute(engine, request, Fixed([*PROMPT[:7], 9, 9]))
    monkeypatch.setattr(pool, "allocate", no_room_beside_others)
    compute(engine, later)
    for each in (request, later):
        case.check(each)


SINKS = {"head_dim": 8, "num_local_experts": 4, "layer_types": ["full_attention"] * 2}


@pytest.mark.parametrize("model_type", ["bloom", "falcon", "gpt_oss"])
def test_other_kinds_of_attention_are_not_captured_but_work(model_type):
    """Bloom and Falcon have no interface for attention; GPT-OSS has attention sinks."""
    settings = SINKS if model_type == "gpt_oss" else {"n_layer": 2, "n_head": 4}
    module = tiny_module(model_type, **settings)
    backend, request = TorchBackend(module, model_type), Fixed(wants_attention=False)
    assert (backend.attention_layer, backend.can_batch) == (None, False)
    assert module.config._attn_implementation != ATTENTION_NAME
    compute(engine_of(backend), request, Fixed(range(3, 9), []))
    with torch.inference_mode():
        expected = module(torch.tensor([PROMPT + MORE])).logits[0, len(PROMPT) - 1 :]
    assert_near(torch.stack(request.logits), expected, "two layers")


LONG_ROPE = {"short_factor": [1.0] * 4, "long_factor": [3.0] * 4, "original_max_position_embeddings": 256}


@pytest.mark.parametrize("rope", [{"rope_type": "dynamic"}, {"rope_type": "longrope", **LONG_ROPE}])
def test_positions_that_depend_on_the_longest_text_prevent_batches(rope):
    rope = {"rope_theta": 10_000.0, "factor": 2.0, **rope}
    assert not TorchBackend(tiny_module("llama", rope_parameters=rope), "llama").can_batch


TEXTS = [[(7 * at + number) % 299 for at in range(length)] for number, length in enumerate((9, 30, 4))]


def computed(module, *, wants_attention=False):
    """Return the requests of three texts that are computed in batches."""
    requests = [Fixed(text, MORE[:2], wants_attention=wants_attention) for text in TEXTS]
    compute(engine_of(TorchBackend(module, "m")), *requests)
    return requests


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_logits_are_those_of_each_text_alone_in_every_precision(dtype):
    module = tiny_module("qwen2").to(dtype)
    # Norms are computed in float32, also between weights in float64.
    name = "float32" if dtype == torch.float64 else str(dtype).removeprefix("torch.")
    for text, request in zip(TEXTS, computed(module), strict=True):
        with torch.inference_mode():
            alone = module(torch.tensor([text + MORE[:2]])).logits[0, len(text) - 1 :]
        assert_near(torch.stack(request.logits), alone, "two layers", name)


def test_attention_changes_no_logit_in_a_coarse_precision():
    """The keys have large numbers, like Qwen2's: rounded scores would be far off."""
    module = tiny_module("qwen2")
    for layer in module.model.layers:
        layer.self_attn.q_proj.bias.data[7] = 30.0
        layer.self_attn.k_proj.bias.data[7] = 200.0
    module = module.to(torch.bfloat16)
    with_it, without = (computed(module, wants_attention=wants) for wants in (True, False))
    for one, other in zip(with_it, without, strict=True):
        assert torch.equal(torch.stack(one.logits), torch.stack(other.logits))
        assert (len(one.rows), len(other.rows)) == (2, 0)


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3", "phi3"])
def test_each_layer_computes_its_own_product(model_type):
    """Quantized layers, adapters and registered hooks take effect."""
    module = tiny_module(model_type, **({"head_dim": 8} if model_type == "qwen3" else {}))
    linear = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    called = []
    for name, layer in linear.items():
        layer.register_forward_hook(lambda *_, name=name: called.append(name))
    computed(module)
    (num_passes,) = {called.count(name) for name in linear}
    assert num_passes >= len(MORE[:2]) + 1


@pytest.fixture
def pool():
    return KVPool()


def write(pool, cells, number):
    for layer, heads in enumerate((2, 1)):
        new = torch.full((len(cells.indices), heads, 3), float(number))
        pool.write(layer, torch.tensor(cells.indices), new, new)
    return cells


def numbers(pool, cells):
    tensors = [tensor for layer in pool.layers.values() for tensor in layer]
    return {value for tensor in tensors for value in tensor[cells.indices].unique().tolist()}


def test_each_text_has_its_own_cells(pool):
    cells = {number: write(pool, pool.allocate(400), number) for number in (1, 2, 3)}
    del cells[2]
    write(pool, pool.allocate(900), 9)
    assert [numbers(pool, cells[number]) for number in (1, 3)] == [{1}, {3}]


def test_a_common_prefix_stays_until_the_last_text_has_left(pool):
    first = write(pool, pool.allocate(40), 1)
    block = first.prefix(16)
    del first
    second = pool.allocate(60).with_prefix(block, 16)
    assert (len(second.indices), second.indices[:16]) == (60, block.indices)
    assert pool.allocate(20).with_prefix(block, 3).indices[:3] == block.indices[:3]
    del block
    write(pool, pool.allocate(2000), 9)
    assert numbers(pool, second.prefix(16)) == {1}


def test_memory_is_freed_when_no_text_uses_any(pool):
    cells = write(pool, pool.allocate(40), 1)
    pool.free_memory()
    assert numbers(pool, cells) == {1}
    del cells
    pool.free_memory()
    assert pool.layers == {}
    again = write(pool, pool.allocate(5), 2)
    assert numbers(pool, again) == {2}


def test_memory_that_runs_out_while_the_pool_grows_loses_nothing(pool, monkeypatch):
    first, cat, calls = write(pool, pool.allocate(10), 1), torch.cat, []

    def full(tensors):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return cat(tensors)

    monkeypatch.setattr(torch, "cat", full)
    with pytest.raises(RuntimeError):
        pool.allocate(5000)
    second = write(pool, pool.allocate(1500), 2)
    assert (numbers(pool, first), numbers(pool, second)) == ({1}, {2})
