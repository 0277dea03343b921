"""Logits, entropy and attention by llama.cpp are those of torch on the same weights.

Keys and values are float16 here and float32 there: numbers agree to two hundredths, and to a ten-thousandth
where they are float32 here, too.
"""

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.contracts.model_contract import computed, run
from tests.models.llama.calls import BOUND, ENTROPY, check_same, ids_of, written
from tests.tolerances import assert_near, near

from askance.core.types import Raw, Span, Want
from askance.models.hf import HfModel
from askance.models.llama_cpp.library import llama
from askance.models.llama_cpp.signals import LlamaLogits

SHARED = ids_of(0)


@pytest.fixture
def by_torch(fresh, gguf_files):
    """Return the same model in torch."""
    name = fresh().name
    return HfModel(*gguf_files[name][1:], name=name)


def test_signals_attention_and_scores_are_those_of_torch(by_torch, fresh):
    ours, prompts = fresh(), [ids_of(0, length) for length in (3, 100, 300, 490)]
    for ids in prompts:
        check_same([written(ours, ids, 12)], [written(by_torch, ids, 12)])
    for ids in prompts[1:]:
        theirs, found = (run(model.attend(ids, bos=False)).weights for model in (by_torch, ours))
        assert_near(found, theirs, *BOUND)
    theirs, found = (
        run(model.score(Raw((Span("The cat"),)), [" sat on the river", " dog"])) for model in (by_torch, ours)
    )
    assert [score.num_tokens for score in found] == [score.num_tokens for score in theirs]
    assert [score.logprob for score in found] == near([score.logprob for score in theirs], *BOUND)


def test_float16_is_all_that_differs(by_torch, fresh, monkeypatch):
    defaults = llama.llama_context_default_params

    def in_float32():
        settings = defaults()
        settings.type_k = settings.type_v = 0
        return settings

    monkeypatch.setattr(llama, "llama_context_default_params", in_float32)
    ids, ours = ids_of(0, 60), fresh()
    check_same([written(ours, ids, 12)], [written(by_torch, ids, 12)], ("llama.cpp", "float32"))
    theirs, found = (run(model.attend(ids, bos=False)).weights for model in (by_torch, ours))
    assert_near(found, theirs, "llama.cpp")


def test_a_cached_prefix_changes_nothing(fresh):
    model = fresh()
    found = [written(model, (*SHARED, last)) for last in (7, 7, 8)]
    shared = found[0].prompt_tokens - 2  # one tokenizer adds BOS
    assert [generation.reused_tokens for generation in found] == [0, shared, shared]
    check_same(found[1:], [found[0], written(fresh(), (*SHARED, 8))])


def test_a_tensor_that_came_to_lie_elsewhere_is_found_again(fresh):
    """Nothing is looked for before attention is wanted."""
    model = fresh()
    written(model, SHARED, want=ENTROPY)
    assert not model._backend._current_context.reads_attention
    expected = written(model, SHARED)
    assert model._backend._current_context.reads_attention
    watch = model._backend._current_context._callback
    real, wanted = watch.__missing__.__func__, []

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
    check_same([written(model, SHARED)], [expected])


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
    for id in (7, 11):
        assert row.logprob(id) == near(logprobs[id], "distribution", "float32")
    assert row.best == (logits.max(), logits.argmax())
