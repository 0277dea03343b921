"""What goes beyond a limit is refused, with the numbers."""

import asyncio
import time

import numpy as np
import pytest

from askance.core.errors import LimitReached, ModelFailure, ParameterError
from askance.core.token_ledger import Budget
from askance.core.trace import Trace
from askance.core.types import Attention, GenerateRequest, Raw, Sampling, Span
from askance.middleware.session import Session, SessionModel, SessionRetriever
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.middleware.test_session import FAILING_CALLS

PROMPT = Raw((Span("one two three four"),))
NUM_PROMPT = 4


def limited(model=None, **budget):
    session = Session(Trace(), budget=Budget(**budget))
    return session, SessionModel(model or ScriptedModel(), "answer", session)


def generate(model, max_tokens=5, **options):
    return asyncio.run(model.generate(GenerateRequest(PROMPT, Sampling(max_tokens), key=("k",), **options)))


def test_what_is_spent_is_counted():
    session, model = limited(tokens=1000)
    (generation,) = generate(model)
    assert session.ledger.num_spent == NUM_PROMPT + generation.generated_tokens
    asyncio.run(model.attend("one two", bos=False))
    asyncio.run(model.score(PROMPT, [" yes"]))
    assert session.ledger.num_calls == 3
    assert session.ledger.num_spent == NUM_PROMPT + generation.generated_tokens + 2 + NUM_PROMPT + 1


@pytest.mark.parametrize(
    ("tokens", "num_spent", "options", "message"),
    [
        (
            20,
            18,
            {},
            rf"18 are used, and the next prompt has {NUM_PROMPT}: allow more \(--budget tokens=N\)\.",
        ),
        (NUM_PROMPT, 0, {}, f"0 are used, and the next prompt has {NUM_PROMPT}"),
        (NUM_PROMPT + 3, 0, {}, "all are used"),
        (2 * NUM_PROMPT + 9, 0, {"n": 2}, "all are used"),
        (2 * NUM_PROMPT + 1, 0, {"n": 2}, "none is left to generate"),
    ],
)
def test_a_call_beyond_what_is_left_is_refused(tokens, num_spent, options, message):
    session, model = limited(tokens=tokens)
    session.ledger.num_spent = num_spent
    with pytest.raises(LimitReached, match=message):
        generate(model, **options)


def test_samples_and_calls_side_by_side_share_what_is_left():
    session, model = limited(tokens=2 * NUM_PROMPT + 10)
    assert [each.generated_tokens for each in generate(model, n=2)] == [5, 5]
    assert session.ledger.left == 0
    session, model = limited(tokens=2 * NUM_PROMPT + 9)

    async def both():
        work = (model.generate(GenerateRequest(PROMPT, Sampling(5), key=(number,))) for number in range(2))
        return await asyncio.gather(*work, return_exceptions=True)

    first, second = asyncio.run(both())
    assert [len(first), type(second)] == [1, LimitReached]
    assert session.ledger.num_spent == 2 * NUM_PROMPT + 9


class TimingOut(ScriptedModel):
    async def generate(self, request):
        raise TimeoutError("of the server")


def test_a_call_that_fails_gives_back_what_was_set_aside_and_a_time_out_of_its_own_stays_one():
    session, broken = limited(TimingOut(), tokens=1000, seconds=60)
    with pytest.raises(ModelFailure, match="TimeoutError: of the server"):
        generate(broken)
    assert session.ledger.num_spent == NUM_PROMPT
    assert session.ledger.left == 1000 - NUM_PROMPT


def test_calls_of_model_and_retriever_are_counted_together():
    session, model = limited(calls=2)
    for _ in range(2):
        asyncio.run(SessionRetriever(ScriptedRetriever({}), session).search("a", 1))
    with pytest.raises(LimitReached, match=r"has 2 calls, and all are made: allow more \(--budget calls=N\)"):
        generate(model)


def test_time_ends_a_call_and_the_calls_after_it():
    class Slow(ScriptedModel):
        async def generate(self, request):
            await asyncio.sleep(5)

    _, model = limited(Slow(), seconds=0.05)
    with pytest.raises(LimitReached, match=r"a question has 0\.05 seconds"):
        generate(model)
    _, model = limited(seconds=0.05)
    generate(model)
    time.sleep(0.06)
    with pytest.raises(LimitReached, match=r"a question has 0\.05 seconds"):
        generate(model)


@pytest.mark.parametrize("budget", [{"tokens": 0}, {"calls": -1}, {"seconds": float("nan")}])
def test_a_budget_out_of_range(budget):
    with pytest.raises(ParameterError, match=r"of the budget: expected [\d.]+ or more"):
        Budget(**budget)


class Uncountable(ScriptedModel):
    """A model whose prompts can't be counted."""

    def tokenize(self, text, *, at_start=False):
        raise OSError("no vocabulary")

    async def count(self, prompt):
        self.tokenize(prompt)

    async def attend(self, text, *, bos):
        return Attention((), (), np.zeros((1, 0, 0)))


def test_without_a_limit_of_tokens_prompts_are_not_counted_for_it():
    session, model = limited(Uncountable(), calls=9)
    asyncio.run(model.attend("one two", bos=False))
    assert session.ledger.num_calls == 1


@pytest.mark.parametrize("call", FAILING_CALLS.values())
def test_a_prompt_that_can_not_be_counted_is_a_failure_of_the_model(call):
    session, model = limited(Uncountable(), tokens=1000)
    with pytest.raises(ModelFailure, match=r"answer model scripted, .*: OSError: no vocabulary"):
        asyncio.run(call(model))
    assert [event.message for event in session.trace.events] == ["no vocabulary"]
    assert session.ledger.num_calls == 0
