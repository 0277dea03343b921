"""What every adapter of the `Model` port promises.

Subclass `ModelContract`, give it a `model` fixture, and say what the model declares: a test that needs a
signal or capability which the model does not declare has nothing to check, and `test_declares` makes sure
that this is meant.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pytest
from tests.tolerances import assert_clear, assert_near, near, tolerance

from askance.core.errors import InputError, PromptTooLong
from askance.core.ports import Model, ShowsPieces
from askance.core.types import (
    Capability,
    Chat,
    Cut,
    GenerateRequest,
    Generation,
    Prompt,
    Raw,
    Sampling,
    Signal,
    Span,
    Token,
    Turn,
    Want,
    untrusted,
)

T = TypeVar("T")

ALL_SIGNALS: frozenset[Signal] = frozenset({"logprob", "top_logprobs", "entropy", "token_probs", "attention"})
ALL_CAPABILITIES: frozenset[Capability] = frozenset({"raw", "chat", "continuation", "score", "attend"})


@dataclass(frozen=True, slots=True)
class KeepOf:
    """Cuts at `seen` tokens and keeps `kept` of them."""

    seen: int
    kept: int

    def __call__(self, tokens: Sequence[Token]) -> Cut | None:
        return Cut(self.kept, "enough") if len(tokens) >= self.seen else None


def run(work: Awaitable[T]) -> T:
    async def main() -> T:
        return await work

    return asyncio.run(main())


def computed(generation: Generation) -> tuple[Token, ...]:
    """All tokens the model chose, in order."""
    return generation.tokens + generation.dropped


class ModelContract:
    """The tests. They are written for any text model: nothing is expected of what it says.

    Attributes:
        prompt: a plain prompt. Greedy decoding from it must give at least six tokens.
        chat: a conversation; ignored without the capability.
        control_strings: texts that are one control token each when a trusted span holds them.
        max_tokens: how long the generations are.
        number_format, operation: the row of the table of tolerances for two ways of computing a number.
        precision: what the model says that its numbers are computed in.
        counts_exactly: prompts are counted to the token; otherwise, at most how many there are.
    """

    signals: frozenset[Signal] = ALL_SIGNALS
    capabilities: frozenset[Capability] = ALL_CAPABILITIES
    prompt: Raw | Chat = Raw((Span("One two three, the cat and the dog sat by the"),))
    chat: Chat = Chat((Turn("user", (Span("Count to three."),)),))
    control_strings: tuple[str, ...] = ()
    max_tokens = 12
    number_format, operation = "float32", "two layers"
    precision = "float32"
    counts_exactly = True

    def generate(
        self, model: Model, prompt: Prompt | None = None, want: Want = Want(), until=None, **options
    ) -> tuple[Generation, ...]:
        n, key, on_text = options.pop("n", 1), options.pop("key", ("contract",)), options.pop("on_text", None)
        sampling = Sampling(**({"max_tokens": self.max_tokens} | options))
        return run(
            model.generate(
                GenerateRequest(prompt or self.prompt, sampling, want, until, n=n, key=key, on_text=on_text)
            )
        )

    @property
    def tolerance(self) -> float:
        return tolerance(self.number_format, self.operation)

    def near(self, expected):
        return near(expected, self.operation, self.number_format)

    def check_near(self, found, expected) -> None:
        assert_near(found, expected, self.operation, self.number_format)

    def greedy(self, model: Model, want: Want = Want()) -> Generation:
        (generation,) = self.generate(model, want=want)
        assert len(computed(generation)) >= 6, "the contract needs a prompt that yields some tokens"
        return generation

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        chat = self.chat if "chat" in self.capabilities else self.prompt
        return (self.prompt,) if chat is self.prompt else (self.prompt, chat)

    def numbered(self, number: int) -> Prompt:
        """Another prompt for each number."""
        span = Span(f"{number} green boats and")
        return Raw((span,)) if isinstance(self.prompt, Raw) else Chat((Turn("user", (span,)),))

    def test_declares(self, model):
        assert isinstance(model, Model)
        assert isinstance(model, ShowsPieces)
        assert model.counts_exactly is self.counts_exactly
        assert model.signals == self.signals
        assert model.capabilities == self.capabilities
        assert model.name
        assert model.precision == self.precision
        assert model.context_tokens > self.max_tokens
        ids = model.tokenize("one red river")
        assert len(model.pieces(ids)) == len(ids)
        assert "".join(model.pieces(ids)).endswith("river")

    def test_greedy_is_repeatable_whatever_the_key(self, model):
        first, second = self.greedy(model), self.generate(model, key=("other", 3))[0]
        assert (first.text, first.finish) == (second.text, second.finish)
        assert [token.id for token in first.tokens] == [token.id for token in second.tokens]

    def test_greedy_tokens_may_be_compared_exactly(self, model):
        """On any processor, and however they are computed: no two candidates are close."""
        if "top_logprobs" in self.signals:
            tops = [token.top for token in computed(self.greedy(model, Want(top_logprobs=2)))]
            gaps = [top[0][1] - top[1][1] for top in tops if len(top) > 1]
            assert_clear(gaps, self.operation, self.number_format)

    def test_a_key_decides_a_sample(self, model):
        texts = [self.generate(model, temperature=1.0, key=("a", 1))[0].text for _ in range(2)]
        assert texts[0] == texts[1]
        texts = {self.generate(model, temperature=1.5, key=("a", number))[0].text for number in range(6)}
        assert len(texts) > 1

    def test_samples_of_one_call_are_independent_and_only_the_first_is_watched(self, model):
        pieces: list[str] = []
        several = self.generate(model, temperature=1.5, n=5, on_text=pieces.append)
        assert len(several) == 5
        assert len({generation.text for generation in several}) > 1
        assert several[0].text == self.generate(model, temperature=1.5)[0].text == "".join(pieces)
        greedy = self.generate(model, n=3)
        assert len(greedy) == 3
        assert len({generation.text for generation in greedy}) == 1

    def test_tokens_join_to_the_text(self, model):
        for temperature in (0.0, 1.0, 2.0):
            (generation,) = self.generate(model, temperature=temperature)
            assert "".join(token.text for token in generation.tokens) == generation.text
            at = 0
            for token in generation.tokens:
                assert (token.start, token.end) == (at, at + len(token.text))
                at = token.end

    def test_length_ends_a_generation_which_begins_a_longer_one(self, model):
        ids = [token.id for token in computed(self.greedy(model))]
        (generation,) = self.generate(model, max_tokens=3)
        assert [token.id for token in generation.tokens] == ids[:3]
        assert (generation.finish, generation.dropped, generation.generated_tokens) == ("length", (), 3)

    def test_stop_strings_cut_exactly(self, model):
        text = self.greedy(model).text
        for start in range(0, len(text) - 3, max(1, len(text) // 5)):
            stop = text[start : start + 3]
            (generation,) = self.generate(model, stop=("never in a text", stop))
            assert generation.text == text[: text.index(stop)]
            assert generation.finish == "stop"
            assert generation.dropped or generation.tokens[-1].text != "", "something was cut off"
            assert "".join(token.text for token in generation.tokens) == generation.text
            assert all(token.end <= len(generation.text) for token in generation.tokens)
        early, late = text[1:4], text[-3:]
        (generation,) = self.generate(model, stop=(late, early))
        assert generation.text == text[: min(text.index(early), text.index(late))], "the first one wins"

    def test_until_equals_cutting_afterwards(self, model):
        tokens = self.greedy(model).tokens
        for seen, kept in ((1, 1), (3, 2), (4, 0)):
            (generation,) = self.generate(model, until=KeepOf(seen, kept))
            assert [token.id for token in generation.tokens] == [token.id for token in tokens[:kept]]
            assert generation.text == "".join(token.text for token in tokens[:kept])
            assert generation.finish == "enough"
            assert [token.id for token in generation.dropped] == [token.id for token in tokens[kept:seen]]
        plain, watched = self.greedy(model), self.generate(model, until=KeepOf(10**9, 0))[0]
        assert (plain.text, plain.finish) == (watched.text, watched.finish), "one that never cuts"

    def test_signals_are_there_only_when_wanted(self, model):
        for token in computed(self.greedy(model)):
            assert (token.logprob, token.entropy, token.attention) == (None, None, None)
            assert (token.top, token.probs) == ((), ())
        assert self.greedy(model).prompt_texts == ()

    def test_logprobs_are_log_probabilities_of_dropped_tokens_too(self, model):
        if "logprob" not in self.signals:
            return
        want = Want(logprob=True)
        (cut,) = self.generate(model, want=want, until=KeepOf(3, 1))
        assert len(cut.dropped) == 2
        for token in (*computed(self.greedy(model, want)), *cut.dropped):
            assert token.logprob is not None
            assert token.logprob <= self.tolerance

    def test_top_logprobs_agree_with_the_choice(self, model):
        if not {"logprob", "top_logprobs"} <= self.signals:
            return
        for token in computed(self.greedy(model, Want(logprob=True, top_logprobs=4))):
            values = [logprob for _, logprob in token.top]
            assert 1 <= len(values) <= 4
            assert values == sorted(values, reverse=True)
            assert values[0] == self.near(token.logprob), "greedy takes the best"
            assert sum(map(math.exp, values)) <= 1 + self.tolerance
            assert all(isinstance(text, str) for text, _ in token.top)

    def test_entropy_agrees_with_the_top_logprobs(self, model):
        if not {"entropy", "top_logprobs"} <= self.signals:
            return
        for token in computed(self.greedy(model, Want(entropy=True, top_logprobs=5))):
            at_least = -sum(math.exp(logprob) * logprob for _, logprob in token.top)
            assert token.entropy is not None
            assert token.entropy >= at_least - self.tolerance

    def test_token_probs_are_the_probabilities_of_the_named(self, model):
        if not {"logprob", "token_probs"} <= self.signals:
            return
        tokens = computed(self.greedy(model, Want(logprob=True)))
        named = [token for token in tokens if token.text and model.tokenize(token.text) == (token.id,)]
        assert named, "the contract needs a token whose text is one token"
        want = Want(logprob=True, token_probs=(named[0].text, named[-1].text))
        for token in computed(self.greedy(model, want)):
            assert len(token.probs) == 2
            assert all(0 <= probability <= 1 for probability in token.probs)
            for name, probability in zip((named[0], named[-1]), token.probs, strict=True):
                if token.id == name.id:
                    assert probability == self.near(math.exp(token.logprob))

    def test_attention_rows(self, model):
        if "attention" not in self.signals:
            return
        for prompt in self.prompts:
            (generation,) = self.generate(model, prompt, Want(attention="mean"), max_tokens=5)
            *fed, last = computed(generation)
            assert last.attention is None
            for number, token in enumerate(fed):
                assert token.attention.shape == (generation.prompt_tokens + number + 1,)
                assert token.attention.dtype == np.float32
                assert token.attention.sum() == self.near(1)
                assert (token.attention >= 0).all()
            assert len(generation.prompt_texts) == generation.prompt_tokens
            turns = [turn.parts for turn in prompt.turns] if isinstance(prompt, Chat) else [prompt.parts]
            for part in (part for parts in (*turns, prompt.continuation) for part in parts):
                assert not isinstance(part, Span) or part.text in "".join(generation.prompt_texts)
        (generation,) = self.generate(model, want=Want(attention="mean"), until=KeepOf(3, 1))
        assert [token.attention is None for token in computed(generation)] == [False, False, True], "cut"

    def test_attention_over_heads(self, model):
        if "attention" not in self.signals:
            return
        rows = {}
        for how in ("heads", "mean", "max"):
            (generation,) = self.generate(model, want=Want(attention=how), max_tokens=4)
            rows[how] = [token.attention for token in generation.tokens[:-1]]
        for heads, mean, most in zip(rows["heads"], rows["mean"], rows["max"], strict=True):
            assert heads.ndim == 2
            self.check_near(heads.sum(axis=1), np.ones(len(heads), np.float32))
            self.check_near(heads.mean(axis=0), mean)
            self.check_near(heads.max(axis=0), most)

    def test_too_long_prompts_and_no_tokens_are_refused(self, model):
        with pytest.raises(PromptTooLong):
            self.generate(model, max_tokens=model.context_tokens)
        for max_tokens in (0, -1):
            with pytest.raises(InputError):
                self.generate(model, max_tokens=max_tokens)

    def test_untrusted_markup_yields_no_control_tokens(self, model):
        for control in self.control_strings:
            plain = self._prompt_ids(model)
            (trusted_id,) = self._prompt_ids(model, Span(control)) - plain
            for text in (control, f"x{control}{control}y", f" {control}\n"):
                assert trusted_id not in model.tokenize(text)
                assert self._prompt_ids(model, untrusted(text))[trusted_id] == plain[trusted_id]
                assert model.decode(model.tokenize(text)) == text
            for cut in range(1, len(control)):
                for trusted in (True, False):
                    halves = Span(control[:cut], trusted), Span(control[cut:], not trusted)
                    assert self._prompt_ids(model, *halves)[trusted_id] == plain[trusted_id]

    def _prompt_ids(self, model, *spans) -> Counter[int]:
        (generation,) = self.generate(model, Raw((Span("go:"), *spans)), max_tokens=1)
        return Counter(generation.prompt_ids)

    def test_token_ids_match_control_strings(self, model):
        for control in self.control_strings:
            (id,) = model.tokenize([Span(control)])
            assert {id} == set(self._prompt_ids(model, Span(control)) - self._prompt_ids(model))
            assert id not in model.tokenize(control)
            assert model.tokenize([Span(f"cat{control} dog")]).count(id) == 1
            spans = (Span("cat", trusted=False), Span(control), Span(control, trusted=False))
            for at_start in (False, True):
                assert model.tokenize(spans, at_start=at_start).count(id) == 1, "only the trusted one"

    def test_tokenize_and_decode_are_inverse(self, model):
        for text in ("The cat sat.", " the dog", "two\nlines", "naïve café"):
            assert model.decode(model.tokenize(text)) == text
            assert model.tokenize([Span(text)]) == model.tokenize(text)
            whole = text.lstrip()  # a space that a tokenizer would put there itself may get lost
            assert model.decode(model.tokenize(whole, at_start=True), at_start=True) == whole

    def test_a_text_by_itself_is_tokenised_as_a_prompt_is(self, model):
        if "raw" not in self.capabilities:
            return
        (generation,) = self.generate(model, Raw((Span("The cat sat"),)), max_tokens=1)
        ids = model.tokenize("The cat sat", at_start=True)
        if generation.prompt_ids:
            assert generation.prompt_ids[-len(ids) :] == ids

    def test_a_continuation_equals_a_longer_prompt(self, model):
        if not {"raw", "continuation"} <= self.capabilities:
            return
        more = Span(" river, and then")
        apart = self.generate(model, Raw(self.prompt.parts, continuation=(more,)))[0]
        joined = self.generate(model, Raw((*self.prompt.parts, more)))[0]
        assert (apart.text, apart.prompt_ids) == (joined.text, joined.prompt_ids)

    def test_going_on_from_ids_is_going_on(self, model):
        if "continuation" not in self.capabilities:
            return
        for prompt in self.prompts:
            (whole,) = self.generate(model, prompt, max_tokens=8)
            ids = tuple(token.id for token in whole.tokens)
            begun = replace(prompt, continuation=(ids[:3],))
            (rest,) = self.generate(model, begun, max_tokens=5)
            assert tuple(token.id for token in rest.tokens) == ids[3:]
            assert rest.prompt_tokens == whole.prompt_tokens + 3

    def test_count_is_the_length_of_the_prompt(self, model):
        for prompt in self.prompts:
            (generation,) = self.generate(model, prompt, max_tokens=1)
            if self.counts_exactly:
                assert asyncio.run(model.count(prompt)) == generation.prompt_tokens
            else:
                assert asyncio.run(model.count(prompt)) >= generation.prompt_tokens > 0
            if generation.prompt_ids:
                assert len(generation.prompt_ids) == generation.prompt_tokens

    def test_scores_add_up(self, model):
        if "score" not in self.capabilities:
            return
        first, second = " cat", " dog"
        ids = model.tokenize(first)
        assert model.tokenize(first + second) == ids + model.tokenize(second)
        longer = Raw((*self.prompt.parts, ids))
        (both,) = run(model.score(self.prompt, [first + second]))
        (head,) = run(model.score(self.prompt, [first]))
        (tail,) = run(model.score(longer, [second]))
        assert both.num_tokens == head.num_tokens + tail.num_tokens
        assert both.logprob == self.near(head.logprob + tail.logprob)

    def test_scores_come_in_order(self, model):
        if "score" not in self.capabilities:
            return
        options = [" cat", " dog", " cat"]
        together = run(model.score(self.prompt, options))
        alone = [run(model.score(self.prompt, [option]))[0] for option in options]
        assert [score.num_tokens for score in together] == [score.num_tokens for score in alone]
        for one, other in zip(together, alone, strict=True):
            assert one.logprob == self.near(other.logprob)
            assert one.logprob < 0
        assert run(model.score(self.prompt, [])) == ()
        with pytest.raises(InputError):
            run(model.score(self.prompt, [" cat", ""]))

    def test_watching_shows_the_text(self, model):
        for stop in ((), (self.greedy(model).text[4:7],)):
            pieces: list[str] = []
            (generation,) = self.generate(model, stop=stop, on_text=pieces.append)
            assert "".join(pieces) == generation.text
            assert all(pieces)

    def test_concurrent_calls_equal_sequential_ones(self, model):
        prompts = [self.numbered(number) for number in range(4)]
        sampling = Sampling(6, temperature=0.8)

        async def all_at_once():
            calls = [
                model.generate(GenerateRequest(p, sampling, key=("question", i)))
                for i, p in enumerate(prompts)
            ]
            return await asyncio.gather(*calls)

        together = asyncio.run(all_at_once())
        for number, prompt in enumerate(prompts):
            (alone,) = self.generate(model, prompt, max_tokens=6, temperature=0.8, key=("question", number))
            assert together[number][0].text == alone.text

    def test_a_cancelled_call_leaves_the_model_usable(self, model):
        before = self.greedy(model).text

        async def cancel_one():
            sampling = Sampling(min(200, model.context_tokens // 2))
            task = asyncio.create_task(model.generate(GenerateRequest(self.prompt, sampling, key=("long",))))
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])

        asyncio.run(cancel_one())
        assert self.greedy(model).text == before

    def test_attend_gives_causal_weights(self, model):
        if "attend" not in self.capabilities:
            return
        for bos in (False, True):
            attention = run(model.attend("The cat sat by the river.", bos=bos))
            count = len(attention.ids)
            assert attention.weights.shape[1:] == (count, count)
            assert attention.weights.dtype == np.float32
            sums = attention.weights.sum(axis=-1)
            self.check_near(sums, np.ones_like(sums))
            assert not np.triu(attention.weights, k=1).any()
            assert len(attention.texts) == count
            assert "".join(attention.texts).endswith("sat by the river.")
        ids = model.tokenize(" the cat sat")
        assert run(model.attend(ids, bos=False)).ids == ids
