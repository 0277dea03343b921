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

PROMPT = Raw((Span("one two three four"),))


def limited(**budget):
    session = session_of(**budget)
    return session, model_in(session)


def session_of(**budget):
    return Session(Trace(), budget=Budget(**budget))


def model_in(session, model=None):
    return SessionModel(model or ScriptedModel(), "answer", session)


def generate(model, max_tokens=5, **options):
    return asyncio.run(model.generate(GenerateRequest(PROMPT, Sampling(max_tokens), key=("k",), **options)))


def test_what_is_spent_is_counted():
    session, model = limited(tokens=1000)
    (generation,) = generate(model)
    num_prompt = asyncio.run(model.count(PROMPT))
    assert session.ledger.num_spent == num_prompt + generation.generated_tokens
    asyncio.run(model.attend("one two", bos=False))
    assert session.ledger.num_calls == 2


def test_a_prompt_beyond_what_is_left_is_not_asked():
    session, model = limited(tokens=20)
    session.ledger.num_spent = 18
    num_prompt = asyncio.run(model.count(PROMPT))
    told = rf"18 are used, and the next prompt has {num_prompt}: allow more \(--budget tokens=N\)\."
    with pytest.raises(LimitReached, match=told):
        generate(model, 100)
    assert (session.ledger.num_spent, session.ledger.num_calls) == (18, 0)


def test_a_text_that_the_limit_cuts_is_refused():
    num_prompt = asyncio.run(ScriptedModel().count(PROMPT))
    _, model = limited(tokens=num_prompt + 3)
    with pytest.raises(LimitReached, match="all are used"):
        generate(model, 5)


def test_several_samples_share_what_is_left():
    num_prompt = asyncio.run(ScriptedModel().count(PROMPT))
    session, model = limited(tokens=2 * num_prompt + 10)
    assert [each.generated_tokens for each in generate(model, 5, n=2)] == [5, 5]
    assert session.ledger.left == 0
    with pytest.raises(LimitReached, match="all are used"):
        generate(limited(tokens=2 * num_prompt + 9)[1], 5, n=2)


def test_calls_side_by_side_do_not_spend_the_same_tokens():
    num_prompt = asyncio.run(ScriptedModel().count(PROMPT))
    session, model = limited(tokens=2 * num_prompt + 9)

    async def both():
        work = (model.generate(GenerateRequest(PROMPT, Sampling(5), key=(number,))) for number in range(2))
        return await asyncio.gather(*work, return_exceptions=True)

    first, second = asyncio.run(both())
    assert [len(first), type(second)] == [1, LimitReached]
    assert session.ledger.num_spent == 2 * num_prompt + 9


def test_what_is_set_aside_for_a_call_that_fails_is_there_again():
    session, model = limited(tokens=1000)
    broken = model_in(session, TimingOut())
    with pytest.raises(ModelFailure):
        generate(broken)
    assert session.ledger.num_spent == asyncio.run(model.count(PROMPT))


def test_calls():
    session = session_of(calls=2)
    retriever = SessionRetriever(ScriptedRetriever({}), session)
    for _ in range(2):
        asyncio.run(retriever.search("a", 1))
    with pytest.raises(LimitReached, match=r"has 2 calls, and all are made: allow more \(--budget calls=N\)"):
        generate(model_in(session))


class Slow(ScriptedModel):
    async def generate(self, request):
        await asyncio.sleep(5)


def test_time():
    model = model_in(session_of(seconds=0.05), Slow())
    with pytest.raises(LimitReached, match=r"a question has 0\.05 seconds"):
        generate(model)


def test_time_that_is_over_before_a_call_that_does_not_wait():
    _, model = limited(seconds=0.05)
    generate(model)
    time.sleep(0.06)
    with pytest.raises(LimitReached, match=r"a question has 0\.05 seconds"):
        generate(model)


class TimingOut(ScriptedModel):
    async def generate(self, request):
        raise TimeoutError("of the server")


def test_a_time_out_of_the_call_itself_stays_one():
    with pytest.raises(ModelFailure, match="TimeoutError: of the server"):
        generate(model_in(session_of(seconds=60), TimingOut()))


@pytest.mark.parametrize("budget", [{"tokens": 0}, {"calls": -1}, {"seconds": float("nan")}])
def test_a_budget_out_of_range(budget):
    with pytest.raises(ParameterError, match=r"of the budget: expected [\d.]+ or more"):
        Budget(**budget)


def test_without_a_limit_of_tokens_prompts_are_not_tokenised_for_it():
    class Uncounted(ScriptedModel):
        async def count(self, prompt):
            raise AssertionError

        def tokenize(self, text):
            raise AssertionError

        async def attend(self, text, *, bos):
            return Attention((), (), np.zeros((1, 0, 0)))

    session = session_of(calls=9)
    asyncio.run(model_in(session, Uncounted()).attend("one two", bos=False))
    assert session.ledger.num_calls == 1


class Uncountable(ScriptedModel):
    def tokenize(self, text):
        raise OSError("no vocabulary")

    async def count(self, prompt):
        self.tokenize(prompt)


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.generate(GenerateRequest(PROMPT, Sampling(5), key=("draft",))),
        lambda model: model.score(PROMPT, ["yes"]),
        lambda model: model.attend("red", bos=True),
    ],
)
def test_a_prompt_that_can_not_be_counted_is_a_failure_of_the_model(call):
    session = session_of(tokens=1000)
    with pytest.raises(ModelFailure, match=r"answer model scripted, .*: OSError: no vocabulary"):
        asyncio.run(call(model_in(session, Uncountable())))
    assert [event.message for event in session.trace.events] == ["no vocabulary"]
    assert session.ledger.num_calls == 0
