"""Calls of a session and their failures are in the trace, and what goes beyond a limit is refused."""

import asyncio
import time

import numpy as np
import pytest

from askance.core.errors import (
    InputError,
    LimitReached,
    ModelFailure,
    ParameterError,
    PromptTooLong,
    RetrieverFailure,
)
from askance.core.token_ledger import Budget
from askance.core.trace import Attended, Generated, ScoredOptions, Searched, Trace
from askance.core.types import (
    Attention,
    Chat,
    GenerateRequest,
    Passage,
    Raw,
    Sampling,
    Span,
    Turn,
    Want,
    untrusted,
)
from askance.middleware.session import Session, SessionModel, SessionRetriever
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.tolerances import near

PROMPT = Raw((Span("Say "), untrusted("it")), (untrusted(" now"),))
CHAT = Chat((Turn("user", (Span("how"),)),), (Span("I am"),))
KEY = ("draft", 0)
NUM_TOKENS = 4
"""The number of tokens of the prompt."""
ARNO = Passage("a", "Arno", "A river.")


def session_of(model=None, role="answer", scope=(7, "q1"), **budget):
    """Return the trace, and a model and a retriever whose calls belong to one session."""
    model = model or ScriptedModel()
    session = Session(Trace(), scope, Budget(**budget))
    retriever = model if isinstance(model, Broken) else ScriptedRetriever([ARNO])
    return session.trace, SessionModel(model, role, session), SessionRetriever(retriever, session)


def request(max_tokens=3, prompt=PROMPT, want=Want(), temperature=0.0, **options):
    return GenerateRequest(prompt, Sampling(max_tokens, temperature), want, key=KEY, **options)


def generate(model, *given, **options):
    return asyncio.run(model.generate(request(*given, **options)))


def ledger(model):
    return model._session.ledger


class Panic(BaseException):
    """An error like the panic of a Rust extension, which is no `Exception`."""


class Broken(ScriptedModel):
    """A model, and a retriever, that raises an error."""

    def __init__(self, error):
        super().__init__(name="broken")
        self.error = error

    def _fail(self, *given, **named):
        raise self.error

    generate = score = attend = search = _fail


def test_calls_are_traced_with_what_they_cost():
    replies, scores = [Reply("red blue", doubts={"blue": 0.25}), "fine"], {" yes": -0.5, " no": -1.5}
    trace, model, retriever = session_of(ScriptedModel(replies, scores=scores), role="critic")
    generate(model, 9, PROMPT, Want(logprob=True))
    generate(model, 9, CHAT)
    asyncio.run(model.score(PROMPT, [" yes", " no"]))
    asyncio.run(model.attend("red blue", bos=True))
    hits = asyncio.run(retriever.search("river", 3))
    written, chatted, scored, attended, searched = trace.events
    assert [type(event) for event in trace.events[1:]] == [Generated, ScoredOptions, Attended, Searched]
    assert (written.prompt, written.text, written.key, written.finish) == (
        "Say it now",
        "red blue",
        KEY,
        "end",
    )
    assert (written.prompt_tokens, written.generated_tokens) == (NUM_TOKENS, 3)
    assert written.tokens[1].logprob == near(-1.386, "as told", "3 decimals")
    assert chatted.prompt == "<user>\nhow\n<assistant>\nI am"
    assert (scored.prompt, scored.options, scored.logprobs) == ("Say it now", (" yes", " no"), (-0.5, -1.5))
    assert (scored.prompt_tokens, attended.prompt_tokens) == (NUM_TOKENS + 2, 3)
    assert (searched.query, searched.k, searched.hits, hits[0].passage) == ("river", 3, hits, ARNO)
    assert {event.role for event in trace.events[:-1]} == {"critic"}
    assert all(event.seconds > 0 for event in trace.events)
    assert trace.usage().prompt_tokens == sum(event.prompt_tokens for event in trace.events[:-1])


def test_wrapping_changes_nothing_but_the_trace_and_the_key():
    keys = []
    generate(session_of(ScriptedModel(lambda prompt, key: keys.append(key) or "yes"))[1])
    assert keys == [(7, "q1", *KEY)]
    plain = ScriptedModel()
    trace, model, _ = session_of(plain, scope=())
    ours, theirs = (generate(each, 12, temperature=1.0, n=3) for each in (model, plain))
    assert [each.text for each in ours] == [each.text for each in theirs]
    assert [type(event) for event in trace.events] == [Generated] * 3, "every sample is an event"
    for name in ("name", "capabilities", "context_tokens"):
        assert getattr(model, name) == getattr(plain, name)
    assert model.decode(model.tokenize("a b")) == "a b"
    plain.signals = frozenset({"logprob"})
    assert model.signals == {"logprob"}, "a signal that a model turns out to lack is lacking here, too"


CALLS = {
    "answer model {}, draft 0": (lambda model, retriever: model.generate(request()), NUM_TOKENS),
    "answer model {}, score": (lambda model, retriever: model.score(PROMPT, ["yes"]), NUM_TOKENS + 1),
    "answer model {}, attend": (lambda model, retriever: model.attend("red", bos=True), 1),
    "retriever {}": (lambda model, retriever: retriever.search("red", 1), 0),
}
"""The calls of a session with the number of tokens that each reads, by their names in the trace."""


@pytest.mark.parametrize("place", CALLS)
@pytest.mark.parametrize("error", [TimeoutError("of the server"), Panic("not a char boundary")])
def test_a_broken_part_is_recorded_and_named_and_an_interruption_is_none(place, error):
    trace, *parts = session_of(Broken(error), tokens=1000, seconds=60)
    (call, num_tokens), named = CALLS[place], place.format("broken")
    with pytest.raises((ModelFailure, RetrieverFailure), match=f"{named}: {type(error).__name__}: {error}"):
        asyncio.run(call(*parts))
    (event,) = trace.events
    assert (event.type, event.place) == ("error", named)
    assert (event.error, event.message) == (type(error).__name__, str(error))
    assert ledger(parts[0]).left == 1000 - num_tokens, "what was set aside for new tokens is given back"
    trace, *parts = session_of(Broken(SystemExit()))
    with pytest.raises(SystemExit):
        asyncio.run(call(*parts))
    assert trace.events == []


def test_errors_of_ours_and_of_a_watcher_keep_their_type():
    trace, model, _ = session_of(ScriptedModel(context_tokens=5))
    with pytest.raises(PromptTooLong):
        generate(model, 30)
    with pytest.raises(InputError):
        asyncio.run(model.score(PROMPT, [""]))
    with pytest.raises(ZeroDivisionError):
        generate(model, 1, on_text=lambda text: 1 / 0)
    assert [event.error for event in trace.events] == ["PromptTooLong", "InputError"]


def test_what_is_spent_is_counted():
    _, model, _ = session_of(tokens=1000)
    (generation,) = generate(model, 5)
    asyncio.run(model.attend("one two", bos=False))
    asyncio.run(model.score(PROMPT, [" yes"]))
    assert ledger(model).num_calls == 3
    assert ledger(model).num_spent == NUM_TOKENS + generation.generated_tokens + 2 + NUM_TOKENS + 1


@pytest.mark.parametrize(
    ("budget", "num_samples", "message"),
    [
        ({"calls": 1}, 1, r"has 1 calls, and all are made: allow more \(--budget calls=N\)\."),
        ({"tokens": NUM_TOKENS}, 1, f"0 are used, and the next prompt has {NUM_TOKENS}: allow more"),
        ({"tokens": NUM_TOKENS + 3}, 1, r"all are used: allow more \(--budget tokens=N\)\."),
        ({"tokens": 2 * NUM_TOKENS + 9}, 2, "all are used"),
        ({"tokens": 2 * NUM_TOKENS + 1}, 2, "none is left to generate"),
    ],
)
def test_a_call_beyond_a_limit_is_refused(budget, num_samples, message):
    _, model, retriever = session_of(**budget)
    asyncio.run(retriever.search("a", 1))
    with pytest.raises(LimitReached, match=message):
        generate(model, 5, n=num_samples)


def test_samples_and_calls_side_by_side_share_what_is_left():
    _, model, _ = session_of(tokens=2 * NUM_TOKENS + 10)
    assert [each.generated_tokens for each in generate(model, 5, n=2)] == [5, 5]
    assert ledger(model).left == 0
    with pytest.raises(LimitReached, match=rf"{2 * NUM_TOKENS + 10} are used, and the next prompt has"):
        generate(model, 5)
    _, model, _ = session_of(tokens=2 * NUM_TOKENS + 9)

    async def both():
        return await asyncio.gather(*(model.generate(request(5)) for _ in range(2)), return_exceptions=True)

    first, second = asyncio.run(both())
    assert [len(first), type(second)] == [1, LimitReached]
    assert ledger(model).num_spent == 2 * NUM_TOKENS + 9


def test_time_ends_a_call_and_the_calls_after_it():
    class Slow(ScriptedModel):
        async def generate(self, request):
            await asyncio.sleep(5)

    _, later, _ = session_of(seconds=0.05)
    generate(later)
    time.sleep(0.06)
    for model in (session_of(Slow(), seconds=0.05)[1], later):
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


@pytest.mark.parametrize("place", [place for place in CALLS if place != "retriever {}"])
def test_a_prompt_that_can_not_be_counted_is_a_failure_of_the_model(place):
    trace, model, retriever = session_of(Uncountable(), tokens=1000)
    with pytest.raises(ModelFailure, match=f"{place.format('scripted')}: OSError: no vocabulary"):
        asyncio.run(CALLS[place][0](model, retriever))
    assert [event.message for event in trace.events] == ["no vocabulary"]
    assert ledger(model).num_calls == 0
    _, model, _ = session_of(Uncountable(), calls=9)
    asyncio.run(model.attend("one two", bos=False))
    assert ledger(model).num_calls == 1, "without a limit of tokens, nothing is counted"
