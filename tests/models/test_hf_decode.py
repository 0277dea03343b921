"""Decoding compared with transformers itself, and the handling of failures."""

import asyncio
import math
import threading
import time

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
from askance.models.hf.logits import rows_of

QUESTIONS = ("What is the capital of France?", "Name three colours.", "Who wrote Faust?")
ALL = Want(logprob=True, top_logprobs=3, entropy=True, attention="heads")


def module_of(model: HfModel):
    return model._backend.module


def chat(question: str) -> Chat:
    return Chat((Turn("user", (untrusted(question),)),))


def generate(model, prompt, max_tokens=8, want=Want(), until=None, **options):
    n, key, on_text = options.pop("n", 1), options.pop("key", ("test",)), options.pop("on_text", None)
    sampling = Sampling(max_tokens, **options)
    return run(model.generate(GenerateRequest(prompt, sampling, want, until, n=n, key=key, on_text=on_text)))


@pytest.mark.parametrize("question", QUESTIONS)
def test_greedy_text_equals_that_of_transformers(bundled, question):
    with watched_choices() as choices:
        (generation,) = generate(bundled, chat(question), 24)
    ids = torch.tensor([generation.prompt_ids])
    with torch.inference_mode():
        expected = module_of(bundled).generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24
        )
    ours = [token.id for token in computed(generation)]
    assert expected[0, ids.shape[1] :].tolist() == ours or not choices.are_clear("thirty layers")


def test_signals_equal_those_of_one_full_forward_pass(bundled):
    (generation,) = generate(bundled, chat(QUESTIONS[0]), 12, ALL)
    tokens = computed(generation)
    ids = torch.tensor([[*generation.prompt_ids, *(token.id for token in tokens)]])
    with torch.inference_mode():
        logits = module_of(bundled)(ids).logits[0, generation.prompt_tokens - 1 : -1].double()
    logprobs = torch.log_softmax(logits, dim=-1)
    entropies = -(logprobs.exp() * logprobs).sum(dim=-1)
    for token, row, entropy in zip(tokens, logprobs, entropies, strict=True):
        assert token.logprob == near(row[token.id].item(), "thirty layers", "float32")
        assert token.entropy == near(entropy.item(), "thirty layers", "float32")
        assert [p for _, p in token.top] == near(row.topk(3).values.tolist(), "thirty layers", "float32")


def test_attention_while_decoding_equals_attend(bundled):
    (generation,) = generate(bundled, Raw((Span("The river Rhine"),)), 6, Want(attention="heads"))
    ids = (*generation.prompt_ids, *(token.id for token in generation.tokens))
    weights = run(bundled.attend(ids, bos=False)).weights
    for at, token in enumerate(generation.tokens[:-1], start=generation.prompt_tokens):
        assert_near(token.attention, weights[:, at, : at + 1], "attention of thirty layers")


def test_score_equals_the_sum_of_a_full_forward_pass(qwen):
    prompt, option = Raw((Span("The cat"),)), " sat on the river bank"
    ids, added = qwen._encoding.encode(prompt), qwen.tokenize(option)
    assert len(added) > 1
    with torch.inference_mode():
        logits = module_of(qwen)(torch.tensor([[*ids, *added]])).logits[0]
    logprobs = torch.log_softmax(logits[len(ids) - 1 : -1].double(), dim=-1)
    expected = sum(logprobs[at, id].item() for at, id in enumerate(added))
    (scored,) = run(qwen.score(prompt, [option]))
    assert scored.num_tokens == len(added)
    assert scored.logprob == near(expected, "two layers", "float32")


def test_options_with_the_same_prefix_are_scored_in_one_pass(qwen):
    prompt, letters = Raw((Span("The cat sat on the river bank."),)), "QXZJV"
    options = [*(f" {letter}" for letter in letters), " ", " QQX"]
    tokenised = [qwen.tokenize(option) for option in options]
    num_prompt, longest = asyncio.run(qwen.count(prompt)), max(map(len, tokenised))
    beginnings = {ids[:-1] for ids in tokenised}
    assert all(
        any(longer[: len(ids)] == ids for longer in beginnings if len(longer) == longest - 1)
        for ids in beginnings
    )
    alone = [run(qwen.score(prompt, [option]))[0] for option in options]
    run(qwen.clear_cache())
    before = qwen.computed_tokens
    together = run(qwen.score(prompt, options))
    assert qwen.computed_tokens - before == num_prompt + longest - 1
    assert [each.num_tokens for each in together] == list(map(len, tokenised))
    assert [each.logprob for each in together] == near(
        [each.logprob for each in alone], "two layers", "float32"
    )


def test_the_end_token_is_dropped_with_its_signals(bundled):
    (generation,) = generate(bundled, chat(QUESTIONS[0]), 40, ALL)
    assert generation.finish == "end"
    (end,) = generation.dropped
    assert end.id in bundled._vocabulary.end_ids
    assert "<|im_end|>" not in generation.text
    assert end.logprob is not None
    assert end.attention is None
    assert generation.tokens[-1].attention is not None


@pytest.mark.parametrize("name", ["two words", ""])
def test_token_probs_of_what_is_not_one_token(qwen, name):
    with pytest.raises(InputError, match="token_probs names"):
        generate(qwen, Raw((Span("The"),)), want=Want(token_probs=(name,)))


def test_the_last_token_of_a_full_length_has_what_was_held_back(llama):
    """A random model with byte tokens often ends in an incomplete character."""
    for number in range(30):
        (generation,) = generate(llama, Raw((Span("The"),)), 3, temperature=3.0, key=(number,))
        ids = [token.id for token in generation.tokens]
        if generation.finish == "length" and llama.decode((ids[-1],)) == "\ufffd":
            assert generation.tokens[-1].text.endswith("\ufffd")
            return
    pytest.fail("no sample ended in half a character")


def test_a_watcher_runs_on_the_event_loop(qwen):
    threads = set()
    generate(qwen, Raw((Span("The"),)), on_text=lambda _: threads.add(threading.current_thread()))
    assert threads == {threading.main_thread()}


def test_what_a_watcher_raises_is_raised(qwen):
    def broken(text):
        raise ZeroDivisionError(text)

    with pytest.raises(ZeroDivisionError):
        generate(qwen, Raw((Span("The"),)), on_text=broken)


def test_cancelling_stops_within_a_token(qwen, monkeypatch):
    passes, seen = [], []
    forward = qwen._backend.forward

    def slow_forward(feeds):
        passes.append(time.monotonic())
        time.sleep(0.01)
        return forward(feeds)

    monkeypatch.setattr(qwen._backend, "forward", slow_forward)

    async def cancel():
        prompt = Raw((Span("The cat"),))
        task = asyncio.create_task(
            qwen.generate(GenerateRequest(prompt, Sampling(300), key=("x",), on_text=seen.append))
        )
        waiting = asyncio.create_task(qwen.generate(GenerateRequest(prompt, Sampling(300), key=("y",))))
        await asyncio.sleep(0.1)
        waiting.cancel()
        task.cancel()
        cancelled_at = time.monotonic()
        await asyncio.wait([task, waiting])
        num_seen = len(seen)
        await asyncio.sleep(0.1)
        return cancelled_at, num_seen

    cancelled_at, num_seen = asyncio.run(cancel())
    assert len(seen) == num_seen > 0, "who has left sees nothing more"
    assert len(passes) > 2
    assert sum(at > cancelled_at for at in passes) <= 2, "the one under way, and one while the news travels"
    monkeypatch.undo()
    assert generate(qwen, Raw((Span("The cat"),)))[0].tokens


def test_a_text_that_does_not_fit_the_memory_is_a_failure_with_the_numbers(qwen_folder):
    whole = load_hf(str(qwen_folder))
    module, tokenizer = whole._backend.module, whole._encoding._tokenizer
    num_bytes = 200 * whole._backend.bytes_per_token
    model = HfModel(module, tokenizer, name="small", memory_bytes=num_bytes)
    assert generate(model, Raw((Span("The"),)), 8)[0].tokens
    with pytest.raises(ModelFailure, match="tokens do not fit into the memory for 200"):
        generate(model, Raw((Span("The"),)), 300)


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
        (generation,) = await qwen.generate(GenerateRequest(prompt, Sampling(12), key=(number,)))
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


def test_logits_that_are_no_numbers_are_a_failure():
    module = tiny_module("llama", vocabulary=378)
    module.lm_head.weight.data.fill_(float("nan"))
    model = HfModel(module, byte_level_tokenizer(), name="broken")
    with pytest.raises(ModelFailure, match="no numbers"):
        generate(model, Raw((Span("The"),)))
    with pytest.raises(ModelFailure, match="'broken' gave logits that are no numbers"):
        run(model.score(Raw((Span("The"),)), [" cat", " dog"]))


def test_errors_of_torch_are_a_failure(qwen, monkeypatch):
    def broken(*args, **options):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(qwen._backend, "forward", broken)
    with pytest.raises(ModelFailure, match="out of memory"):
        generate(qwen, Raw((Span("The"),)))


def test_nothing_is_computed_for_a_prompt_that_does_not_fit(qwen, monkeypatch):
    monkeypatch.setattr(qwen._backend, "forward", None)
    long = Raw((Span("cat " * 600),))
    with pytest.raises(PromptTooLong):
        generate(qwen, long)
    with pytest.raises(PromptTooLong):
        run(qwen.score(long, ["a"]))
    with pytest.raises(PromptTooLong):
        run(qwen.attend("cat " * 600, bos=False))


def test_a_prompt_may_fill_the_context_exactly(qwen):
    ids = (5,) * (qwen.context_tokens - 2)
    (generation,) = generate(qwen, Raw((ids,)), 2)
    assert generation.prompt_tokens + 2 == qwen.context_tokens


def test_attend_puts_bos_only_where_asked(llama, qwen):
    assert run(llama.attend("The cat", bos=True)).ids == (1, *run(llama.attend("The cat", bos=False)).ids)
    assert run(llama.attend((1, 5), bos=True)).ids == (1, 5)
    assert run(qwen.attend("The cat", bos=True)).ids == run(qwen.attend("The cat", bos=False)).ids
    with pytest.raises(InputError, match="prompt is empty"):
        run(qwen.attend("", bos=False))


BAD = (
    {"temperature": -1},
    {"temperature": math.nan},
    {"top_p": 0},
    {"top_p": 1.5},
    {"top_k": -1},
    {"stop": ("",)},
)


@pytest.mark.parametrize("options", BAD)
def test_sampling_out_of_range(options):
    with pytest.raises(ParameterError):
        check_sampling(Sampling(1, **options), 1)


def test_no_samples():
    with pytest.raises(ParameterError, match="n=0"):
        check_sampling(Sampling(1), 0)


LOGITS = torch.log(torch.tensor([0.05, 0.5, 0.1, 0.3, 0.05]))


def row(logits):
    return rows_of(logits[None])[0]


def drawn(count=2000, **options):
    sampler = TokenSampler(Sampling(1, temperature=1.0, **options), ("k",), 0, "m")
    ids = [sampler.sample(row(LOGITS)) for _ in range(count)]
    return np.bincount(ids, minlength=5) / count


def test_sampling_follows_the_distribution():
    assert_near(drawn(), [0.05, 0.5, 0.1, 0.3, 0.05], "share of 2,000", "draws")


def test_top_k_and_top_p_leave_out_the_improbable():
    assert_near(drawn(top_k=2), [0, 0.625, 0, 0.375, 0], "share of 2,000", "draws")
    assert_near(drawn(top_p=0.6), [0, 0.625, 0, 0.375, 0], "share of 2,000", "draws")
    assert drawn(top_p=0.4)[1] == 1
    assert drawn(top_k=1)[1] == 1


@pytest.mark.parametrize(
    ("options", "kept"), [({"top_k": 1}, 1), ({"top_k": 2}, 2), ({"top_p": 0.3}, 1), ({"top_p": 0.5}, 2)]
)
def test_no_more_are_kept_where_several_are_as_probable(options, kept):
    logits, sampling = torch.tensor([1.0, 3.0, 3.0, 3.0, 0.0]), Sampling(1, temperature=1.0, **options)
    found = row(logits).probabilities(sampling)
    assert (found > 0).sum() == kept
    assert (found[[0, 4]] == 0).all()


def test_an_impossible_token_is_never_drawn():
    logits = torch.tensor([-torch.inf, 0.0, -torch.inf])
    sampler = TokenSampler(Sampling(1, temperature=5.0), ("k",), 0, "m")
    assert {sampler.sample(row(logits)) for _ in range(200)} == {1}


def test_signals_of_a_distribution_with_impossible_tokens():
    logits = torch.tensor([0.0, -torch.inf, 0.0])
    found = row(logits)
    assert found.logprob(0) == near(math.log(0.5), "formula", "float32")
    assert found.entropy == near(math.log(2), "formula", "float32")
    assert math.exp(found.logprob(1)) == 0.0
    assert len(found.top(9)) == 3
