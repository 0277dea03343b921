"""Test decoding against transformers itself, with failures and cancellations, and how prompts are encoded."""

import asyncio
import math
import threading

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from tests.choices import watched_choices
from tests.contracts.model_contract import computed, run
from tests.models.tiny import byte_level_tokenizer, tiny_module
from tests.tolerances import assert_near, near

from askance.core.errors import InputError, ModelFailure, ParameterError, PromptTooLong
from askance.core.types import Chat, GenerateRequest, Raw, Sampling, Span, Turn, Want, untrusted
from askance.inference.decoding import TokenSampler, check_sampling
from askance.models.hf import HfModel, load_hf
from askance.models.hf.load import as_model, load_parts
from askance.models.hf.logits import rows_of
from askance.models.hf.model import encoding_of

QUESTIONS = ("What is the capital of France?", "Name three colours.", "Who wrote Faust?")
ALL = Want(logprob=True, top_logprobs=3, entropy=True, attention="heads")
THE = Raw((Span("The"),))


def module_of(model: HfModel):
    return model._backend.module


def chat(question: str, *continuation: Span) -> Chat:
    return Chat((Turn("user", (untrusted(question),)),), continuation)


def request_of(prompt, max_tokens=8, want=Want(), key=("test",), on_text=None, **options):
    return GenerateRequest(prompt, Sampling(max_tokens, **options), want, key=key, on_text=on_text)


def generate(model, *args, **options):
    (generation,) = run(model.generate(request_of(*args, **options)))
    return generation


def full_logprobs(model, ids):
    with torch.inference_mode():
        return torch.log_softmax(module_of(model)(torch.tensor([ids])).logits[0].double(), dim=-1)


@pytest.mark.parametrize("question", QUESTIONS)
def test_greedy_text_equals_that_of_transformers(few_layers, question):
    with watched_choices() as choices:
        generation = generate(few_layers, chat(question), 24)
    ids = torch.tensor([generation.prompt_ids])
    with torch.inference_mode():
        expected = module_of(few_layers).generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24
        )
    ours = [token.id for token in computed(generation)]
    assert expected[0, ids.shape[1] :].tolist() == ours or not choices.are_clear("thirty layers")


def test_signals_equal_those_of_one_full_forward_pass(bundled):
    generation = generate(bundled, chat(QUESTIONS[0]), 40, ALL)
    tokens, operation = computed(generation), ("thirty layers", "float32")
    ids = [*generation.prompt_ids, *(token.id for token in tokens)]
    logprobs = full_logprobs(bundled, ids)[generation.prompt_tokens - 1 : -1]
    entropies = -(logprobs.exp() * logprobs).sum(dim=-1)
    for token, row, entropy in zip(tokens, logprobs, entropies, strict=True):
        assert token.logprob == near(row[token.id].item(), *operation)
        assert token.entropy == near(entropy.item(), *operation)
        assert [p for _, p in token.top] == near(row.topk(3).values.tolist(), *operation)
    weights = run(bundled.attend(tuple(ids[:-1]), bos=False)).weights
    for at, token in enumerate(generation.tokens, start=generation.prompt_tokens):
        assert_near(token.attention, weights[:, at, : at + 1], "attention of thirty layers")
    (end,) = generation.dropped
    assert (generation.finish, end.id in bundled._vocabulary.end_ids, end.attention) == ("end", True, None)
    assert "<|im_end|>" not in generation.text


def test_scores_equal_those_of_a_full_forward_pass_and_share_a_prefix(qwen):
    prompt = Raw((Span("The cat sat on the river bank."),))
    options = [*(f" {letter}" for letter in "QXZJV"), " ", " QQX"]
    ids, tokenised = qwen._encoding.encode(prompt), [qwen.tokenize(option) for option in options]
    run(qwen.clear_cache())
    before = qwen.computed_tokens
    scores = run(qwen.score(prompt, options))
    assert qwen.computed_tokens - before == len(ids) + max(map(len, tokenised)) - 1, "one pass for all"
    assert [score.num_tokens for score in scores] == list(map(len, tokenised))
    for score, added in zip(scores, tokenised, strict=True):
        rows = full_logprobs(qwen, [*ids, *added])[len(ids) - 1 : -1]
        expected = sum(row[id].item() for row, id in zip(rows, added, strict=True))
        assert score.logprob == near(expected, "two layers", "float32")


def test_a_listener_runs_on_the_event_loop_and_its_error_is_raised(qwen):
    threads = set()
    generate(qwen, THE, on_text=lambda _: threads.add(threading.current_thread()))
    assert threads == {threading.main_thread()}
    with pytest.raises(ZeroDivisionError):
        generate(qwen, THE, on_text=lambda text: 1 // 0)


def test_many_calls_of_which_some_are_cancelled_and_some_fail(qwen, monkeypatch):
    """All calls end, and nothing of them stays except the prefix cache."""
    backend = qwen._backend
    forward, count = backend.forward, iter(range(10**6))

    def sometimes_broken(feeds):
        if next(count) % 7 == 3:
            raise RuntimeError("a fault")
        return forward(feeds)

    monkeypatch.setattr(backend, "forward", sometimes_broken)

    async def call(number):
        prompt = Raw((Span("The river Rhine " * (number % 3) + f"{number}"),))
        (generation,) = await qwen.generate(request_of(prompt, 12, key=(number,)))
        return generation.text

    async def all_at_once():
        tasks = [asyncio.create_task(call(number)) for number in range(60)]
        for number in range(0, 60, 5):
            await asyncio.sleep(0.01)
            tasks[number].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    ends = asyncio.run(all_at_once())
    assert {type(end) for end in ends} <= {str, asyncio.CancelledError, ModelFailure}
    assert sum(isinstance(end, str) for end in ends) > 20
    monkeypatch.undo()
    for number in range(3):  # the last cancelled ones have left by now
        assert asyncio.run(call(number))
    run(qwen.clear_cache())
    assert backend._pool.layers == {}


def no_memory(feeds):
    raise RuntimeError("out of memory")


@pytest.fixture(scope="module")
def faulty(qwen_folder):
    """Return models that fail: one has little memory, one computes no numbers, one raises."""
    module, tokenizer = load_parts(str(qwen_folder))
    num_bytes = 200 * load_hf(str(qwen_folder))._backend.bytes_per_token
    not_numbers = tiny_module("llama", vocabulary=378)
    not_numbers.lm_head.weight.data.fill_(float("nan"))
    raising = HfModel(tiny_module("llama", vocabulary=378), byte_level_tokenizer(), name="raising")
    raising._backend.forward = no_memory
    return {
        "small": HfModel(module, tokenizer, name="small", memory_bytes=num_bytes),
        "no numbers": HfModel(not_numbers, byte_level_tokenizer(), name="broken"),
        "raising": raising,
    }


LONG = Raw((Span("cat " * 600),))


@pytest.mark.parametrize(
    ("name", "call", "kind", "message"),
    [
        ("small", lambda m: generate(m, THE, 300), ModelFailure, "tokens do not fit into the memory for 200"),
        ("no numbers", lambda m: generate(m, THE), ModelFailure, "no numbers"),
        ("no numbers", lambda m: run(m.score(THE, [" a"])), ModelFailure, "'broken' gave logits that are no"),
        ("raising", lambda m: generate(m, THE), ModelFailure, "out of memory"),
        # Nothing is computed for a prompt that does not fit.
        ("raising", lambda m: generate(m, LONG), PromptTooLong, "context window"),
        ("raising", lambda m: run(m.score(LONG, ["a"])), PromptTooLong, "context window"),
        ("raising", lambda m: run(m.attend("cat " * 600, bos=False)), PromptTooLong, "context window"),
        ("raising", lambda m: run(m.attend("", bos=False)), InputError, "prompt is empty"),
        ("raising", lambda m: generate(m, THE, want=Want(token_probs=("a b",))), InputError, "probs names"),
        ("raising", lambda m: generate(m, THE, want=Want(token_probs=("",))), InputError, "probs names"),
        ("raising", lambda m: generate(m, THE, temperature=-1), ParameterError, "temperature=-1"),
        ("raising", lambda m: generate(m, THE, temperature=math.nan), ParameterError, "temperature=nan"),
        ("raising", lambda m: generate(m, THE, top_p=0), ParameterError, "top_p=0"),
        ("raising", lambda m: generate(m, THE, top_p=1.5), ParameterError, "top_p=1.5"),
        ("raising", lambda m: generate(m, THE, top_k=-1), ParameterError, "top_k=-1"),
        ("raising", lambda m: generate(m, THE, stop=("",)), ParameterError, "an empty stop string"),
        ("raising", lambda _: check_sampling(Sampling(1), 0), ParameterError, "n=0"),
    ],
)
def test_requests_that_fail(faulty, name, call, kind, message):
    with pytest.raises(kind, match=message):
        call(faulty[name])


def test_a_prompt_may_fill_the_context_exactly(qwen):
    generation = generate(qwen, Raw(((5,) * (qwen.context_tokens - 2),)), 2)
    assert generation.prompt_tokens + 2 == qwen.context_tokens


def test_attend_adds_bos_only_on_demand(llama, qwen):
    assert run(llama.attend("The cat", bos=True)).ids == (1, *run(llama.attend("The cat", bos=False)).ids)
    assert run(llama.attend((1, 5), bos=True)).ids == (1, 5)
    assert run(qwen.attend("The cat", bos=True)).ids == run(qwen.attend("The cat", bos=False)).ids


def row(*probabilities):
    return rows_of(torch.log(torch.tensor(probabilities))[None])[0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.05, 0.5, 0.1, 0.3, 0.05]),
        ({"top_k": 2}, [0, 0.625, 0, 0.375, 0]),
        ({"top_p": 0.6}, [0, 0.625, 0, 0.375, 0]),
        ({"top_p": 0.4}, [0, 1, 0, 0, 0]),
        ({"top_k": 1}, [0, 1, 0, 0, 0]),
    ],
)
def test_sampling_follows_the_distribution(options, expected):
    sampler = TokenSampler(Sampling(1, temperature=1.0, **options), ("k",), 0, "m")
    ids = [sampler.sample(row(0.05, 0.5, 0.1, 0.3, 0.05)) for _ in range(2000)]
    assert_near(np.bincount(ids, minlength=5) / 2000, expected, "share of 2,000", "draws")


def test_tokens_that_are_as_probable_or_impossible():
    ties = row(0.04, 0.3, 0.3, 0.3, 0.06)
    for options, num_kept in (
        ({"top_k": 1}, 1),
        ({"top_k": 2}, 2),
        ({"top_p": 0.25}, 1),
        ({"top_p": 0.5}, 2),
    ):
        probabilities = ties.probabilities(Sampling(1, temperature=1.0, **options))
        assert [(probabilities > 0).sum(), *probabilities[[0, 4]]] == [num_kept, 0, 0]
    impossible = row(0.5, 0.0, 0.5)
    assert impossible.logprob(0) == near(math.log(0.5), "formula", "float32")
    assert impossible.entropy == near(math.log(2), "formula", "float32")
    assert (math.exp(impossible.logprob(1)), len(impossible.top(9))) == (0.0, 3)
    sampler = TokenSampler(Sampling(1, temperature=5.0), ("k",), 0, "m")
    assert {sampler.sample(impossible) for _ in range(200)} == {0, 2}


@pytest.mark.parametrize(
    "prompt", [chat("Count to <s> three.", Span("One")), Raw((Span("The cat"), untrusted("</s> sat")))]
)
def test_training_and_inference_encode_prompts_as_the_same_ids(prompt, llama_folder):
    module, tokenizer = load_parts(str(llama_folder))
    encoding, model = encoding_of(tokenizer, module, "own"), as_model(module, tokenizer, name="model")
    assert len(encoding.encode(prompt)) == asyncio.run(model.count(prompt))
    assert encoding.parts((untrusted("</s>the river"),), at_start=False) == model.tokenize("</s>the river")
    assert encoding.vocabulary.end_ids == {2}
    plain = encoding.parts((untrusted("cat</s>"),), at_start=False)
    assert encoding.vocabulary.decode_inside(plain) == "cat</s>", "no space before it"
    module.generation_config.eos_token_id = [0, 2]
    assert encoding_of(tokenizer, module, "own").vocabulary.end_ids == {0, 2}
