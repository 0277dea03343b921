"""What goes beyond a limit is refused, with the numbers."""

import asyncio

import pytest

from askance.core.errors import KnobError, LimitReached
from askance.core.types import Raw, Sampling, Span
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.runtime.limit import Budget, Ledger, LimitedModel, LimitedRetriever

PROMPT = Raw((Span("one two three four"),))


def limited(**budget):
    ledger = Ledger(Budget(**budget))
    return ledger, LimitedModel(ScriptedModel(), ledger)


def generate(model, max_tokens=5, **options):
    return asyncio.run(model.generate(PROMPT, Sampling(max_tokens), key=("k",), **options))


def test_what_is_spent_is_counted():
    ledger, model = limited(tokens=1000)
    (generation,) = generate(model)
    num_prompt = model.count(PROMPT)
    assert ledger.num_tokens == num_prompt + generation.generated_tokens
    asyncio.run(model.attend("one two", bos=False))
    assert ledger.num_calls == 2


def test_a_prompt_beyond_what_is_left_is_not_asked():
    ledger, model = limited(tokens=20)
    while ledger.num_tokens + model.count(PROMPT) < 15:
        generate(model, 1)
    ledger.spend(20 - ledger.num_tokens - 2)
    used = ledger.num_tokens
    with pytest.raises(LimitReached, match=rf"has 20 tokens, {used} are used, and the next prompt has \d"):
        generate(model, 100)
    assert ledger.num_tokens <= 20


def test_a_text_that_the_limit_cuts_is_refused():
    num_prompt = ScriptedModel().count(PROMPT)
    _, model = limited(tokens=num_prompt + 3)
    with pytest.raises(LimitReached, match="all are used"):
        generate(model, 5)


def test_several_samples_share_what_is_left():
    num_prompt = ScriptedModel().count(PROMPT)
    ledger, model = limited(tokens=2 * num_prompt + 10)
    assert len(generate(model, 5, n=2)) == 2
    assert ledger.num_tokens <= 2 * num_prompt + 10


def test_calls():
    ledger = Ledger(Budget(calls=2))
    retriever = LimitedRetriever(ScriptedRetriever({}), ledger)
    for _ in range(2):
        asyncio.run(retriever.search("a", 1))
    with pytest.raises(LimitReached, match="has 2 calls, and all are made"):
        generate(LimitedModel(ScriptedModel(), ledger))


class Slow(ScriptedModel):
    async def generate(self, *given, **options):
        await asyncio.sleep(5)


def test_time():
    model = LimitedModel(Slow(), Ledger(Budget(seconds=0.05)))
    with pytest.raises(LimitReached, match=r"a question has 0\.05 seconds"):
        generate(model)


class TimingOut(ScriptedModel):
    async def generate(self, *given, **options):
        raise TimeoutError("of the server")


def test_a_time_out_of_the_call_itself_stays_one():
    with pytest.raises(TimeoutError, match="of the server"):
        generate(LimitedModel(TimingOut(), Ledger(Budget(seconds=60))))


@pytest.mark.parametrize("budget", [{"tokens": 0}, {"calls": -1}, {"seconds": float("nan")}])
def test_a_budget_out_of_range(budget):
    with pytest.raises(KnobError, match=r"of the budget: expected [\d.]+ or more"):
        Budget(**budget)


def test_without_a_limit_nothing_is_counted():
    ledger, model = limited(calls=9)
    generate(model)
    assert ledger.num_calls == 1
