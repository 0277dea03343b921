"""Logits, entropy and attention by llama.cpp are those of torch on the same weights.

Keys and values are float16 here and float32 there: numbers agree to two hundredths, and to a ten-thousandth
where they are float32 here, too.
"""

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.contracts.model_contract import computed, run
from tests.tolerances import assert_near, near

from askance.core.types import GenerateRequest, Raw, Sampling, Span, Want
from askance.models.hf import HfModel
from askance.models.llama_cpp import LlamaModel
from askance.models.llama_cpp.library import llama
from askance.models.llama_cpp.signals import LlamaLogits
from askance.models.llama_cpp.weights import Weights

BOUND = "keys and values", "float16"
ALL = Want(logprob=True, top_logprobs=3, entropy=True, attention="heads")
SHARED = tuple(range(20, 120))


@pytest.fixture(params=["llama", "qwen"])
def both(request, gguf_files, gguf_models):
    """Return the same model in torch and in llama.cpp."""
    _, module, tokenizer = gguf_files[request.param]
    by_torch = HfModel(module.eval(), tokenizer, name=request.param)
    return by_torch, gguf_models[request.param]


@pytest.fixture
def fresh(gguf_files):
    """Return a function that makes models with an empty KV cache."""

    def made(name="qwen", **options):
        file, _, _ = gguf_files[name]
        return LlamaModel(Weights(file), name=name, **options)

    return made


def written(model, ids, max_tokens=12, want=ALL, key=("signals",), **sampling):
    (generation,) = run(
        model.generate(GenerateRequest(Raw((ids,)), Sampling(max_tokens, **sampling), want, key=key))
    )
    return generation


def check_same(ours, theirs, bound=BOUND):
    assert [token.id for token in computed(ours)] == [token.id for token in computed(theirs)]
    for one, other in zip(computed(ours), computed(theirs), strict=True):
        assert one.logprob == near(other.logprob, *bound)
        assert one.entropy == near(other.entropy, *bound)
        assert [p for _, p in one.top] == near([p for _, p in other.top], *bound)
        assert (one.attention is None) == (other.attention is None)
        if one.attention is not None:
            assert_near(one.attention, other.attention, *bound)


@pytest.mark.parametrize("length", [3, 100, 300])
def test_signals_are_those_of_torch(both, length):
    ids = tuple(10 + number * 7 % 200 for number in range(length))
    check_same(written(both[1], ids), written(both[0], ids))


@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_float16_is_all_that_differs(fresh, gguf_files, name, monkeypatch):
    defaults = llama.llama_context_default_params

    def in_float32():
        settings = defaults()
        settings.type_k = settings.type_v = 0
        return settings

    monkeypatch.setattr(llama, "llama_context_default_params", in_float32)
    _, module, tokenizer = gguf_files[name]
    by_torch = HfModel(module.eval(), tokenizer, name=name)
    ids, ours = tuple(10 + number * 7 % 200 for number in range(60)), fresh(name)
    check_same(written(ours, ids), written(by_torch, ids), ("llama.cpp", "float32"))
    theirs, found = (run(model.attend(ids, bos=False)).weights for model in (by_torch, ours))
    assert_near(found, theirs, "llama.cpp")


@pytest.mark.parametrize("length", [40, 500])
def test_attention_of_a_text_is_that_of_torch(both, length):
    ids = tuple(10 + number * 11 % 200 for number in range(length))
    theirs, ours = (run(model.attend(ids, bos=False)).weights for model in both)
    assert_near(ours, theirs, *BOUND)


def test_scores_are_those_of_torch(both):
    prompt = Raw((Span("The cat"),))
    theirs, ours = (run(model.score(prompt, [" sat on the river", " dog"])) for model in both)
    for one, other in zip(ours, theirs, strict=True):
        assert one.num_tokens == other.num_tokens
        assert one.logprob == near(other.logprob, *BOUND)


def test_a_cached_prefix_changes_nothing(fresh):
    model = fresh()
    first = written(model, (*SHARED, 7))
    again, other = written(model, (*SHARED, 7)), written(model, (*SHARED, 8))
    assert (first.reused_tokens, again.reused_tokens, other.reused_tokens) == (0, 99, 99)
    check_same(again, first)
    check_same(other, written(fresh(), (*SHARED, 8)))


def test_nobody_is_asked_before_attention_is_wanted(fresh):
    model = fresh()
    written(model, SHARED, want=Want(entropy=True))
    assert not model._backend._current_context.reads_attention
    written(model, SHARED)
    assert model._backend._current_context.reads_attention


def test_a_tensor_that_came_to_lie_elsewhere_is_found_again(fresh):
    model = fresh()
    expected = written(model, SHARED)
    watch = model._backend._current_context._callback
    real = watch.__missing__.__func__
    wanted = []

    def noted(self, tensor):
        found = real(self, tensor)
        wanted.extend([tensor] if found else [])
        return found

    type(watch).__missing__ = noted
    try:
        written(model, SHARED)
    finally:
        type(watch).__missing__ = real
    watch.update(dict.fromkeys(wanted, False))
    check_same(written(model, SHARED), expected)


def test_without_attention(fresh):
    model = fresh(reads_attention=False)
    assert "attention" not in model.signals
    assert "attend" not in model.capabilities
    want = Want(logprob=True, entropy=True, top_logprobs=3)
    ours, theirs = written(model, SHARED, want=want), written(fresh(), SHARED, want=want)
    assert [token.id for token in computed(ours)] == [token.id for token in computed(theirs)]
    for one, other in zip(computed(ours), computed(theirs), strict=True):
        assert one.entropy == near(other.entropy, "flash attention", "float16")


@pytest.mark.parametrize("least", [-20.0, -np.inf])
def test_a_row_of_many_logits_is_summed_up_in_parts(least):
    logits = np.random.default_rng(0).normal(0, 3, 50_000).astype(np.float32)
    logits[::7] = least
    row, exact = LlamaLogits(logits), logits.astype(np.float64)
    logprobs = exact - np.log(np.exp(exact).sum())
    possible = logprobs[logprobs > -np.inf]
    assert row.entropy == near(-(np.exp(possible) * possible).sum(), "distribution", "float32")
    assert row.logprob(11) == near(logprobs[11], "distribution", "float32")
    assert row.logprob(7) == near(logprobs[7], "distribution", "float32")
    assert row.best == (logits.max(), logits.argmax())
