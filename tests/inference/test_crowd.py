"""A hundred concurrent questions on one model: some are cancelled, some fail, and nothing leaks."""

import asyncio
import random

import pytest

pytest.importorskip("torch")


from askance.ask import Engine, Result
from askance.configuration.build import open_retriever
from askance.configuration.methods import make_method
from askance.core.errors import ModelFailure
from askance.core.trace import Answered, Failed, Trace
from askance.core.types import Question
from askance.models.hf import HfModel, load_hf
from askance.models.hf.load import load_parts

NUM_QUESTIONS, NUM_CANCELLED, BREAKS_EVERY = 100, 20, 12
BUDGET_TOKENS = 10_000


@pytest.fixture
def model(qwen_folder, monkeypatch):
    """Return a model whose KV cache holds a part of the questions, and whose passes sometimes fail."""
    module, tokenizer = load_parts(str(qwen_folder))
    num_bytes = BUDGET_TOKENS * load_hf(str(qwen_folder))._backend.bytes_per_token
    made = HfModel(module.eval(), tokenizer, name="tiny", memory_bytes=num_bytes)
    made.context_tokens = 2048
    backend, rng = made._backend, random.Random(5)
    forward = backend.forward
    made.most_reserved = 0

    def sometimes_broken(feeds):
        kept = backend._cache.num_tokens
        made.most_reserved = max(made.most_reserved, backend.num_reserved + kept)
        # Together they break often; alone, when it is tried again, seldom.
        if rng.random() < 1 / (BREAKS_EVERY if len(feeds) > 1 else 5 * BREAKS_EVERY):
            raise RuntimeError("a fault")
        return forward(feeds)

    monkeypatch.setattr(backend, "forward", sometimes_broken)
    return made


def test_every_question_ends_and_nothing_leaks(model, sample_index):
    made = make_method("dragin", {"max_tokens": 12, "passages": 1, "prompts": "plain"})
    engine, rng = Engine(made, {"answer": model}, open_retriever(sample_index)), random.Random(3)
    traces = [Trace() for _ in range(NUM_QUESTIONS)]

    async def ask_all():
        asked = [
            asyncio.create_task(engine.answer(Question(str(number), f"What is {number}?"), trace=trace))
            for number, trace in enumerate(traces)
        ]
        for task in rng.sample(asked, NUM_CANCELLED):
            await asyncio.sleep(0.01)
            task.cancel()
        return await asyncio.gather(*asked, return_exceptions=True)

    ends = asyncio.run(ask_all())
    counts = {kind: sum(isinstance(end, kind) for end in ends) for kind in (Result, ModelFailure)}
    assert {type(end) for end in ends} <= {Result, ModelFailure, asyncio.CancelledError}
    assert counts[Result] >= NUM_QUESTIONS // 2
    assert counts[ModelFailure] >= 1
    for end, trace in zip(ends, traces, strict=True):
        assert isinstance(trace.events[-1], Answered if isinstance(end, Result) else Failed)
    model._backend.clear_cache()
    assert model._backend.num_reserved == 0
    assert 0.8 * BUDGET_TOKENS < model.most_reserved <= BUDGET_TOKENS
