"""Calls of a session are in the trace with what they cost, and so are their failures."""

import asyncio

import pytest

from askance.core.errors import InputError, ModelFailure, PromptTooLong, RetrieverFailure
from askance.core.trace import Attended, Failed, Generated, ScoredOptions, Searched, Trace
from askance.core.types import Chat, GenerateRequest, Passage, Raw, Sampling, Span, Turn, Want, untrusted
from askance.middleware.session import Session, SessionModel, SessionRetriever
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.tolerances import near

PROMPT = Raw((Span("Say "), untrusted("it")), (untrusted(" now"),))
CHAT = Chat((Turn("user", (Span("how"),)),), (Span("I am"),))
KEY = ("draft", 0)


def recorded(model, role="answer", scope=(7, "q1")):
    trace = Trace()
    return SessionModel(model, role, Session(trace, scope)), trace


def request(max_tokens=3, prompt=PROMPT, want=Want(), temperature=0.0, **options):
    return GenerateRequest(prompt, Sampling(max_tokens, temperature), want, key=KEY, **options)


def generate(model, *given, **options):
    return asyncio.run(model.generate(request(*given, **options)))


@pytest.mark.parametrize(
    ("prompt", "shown"), [(PROMPT, "Say it now"), (CHAT, "<user>\nhow\n<assistant>\nI am")]
)
def test_a_generation_is_traced_with_what_it_cost(prompt, shown):
    model, trace = recorded(ScriptedModel([Reply("red blue", doubts={"blue": 0.25})]))
    generate(model, 9, prompt, Want(logprob=True))
    (event,) = trace.events
    assert isinstance(event, Generated)
    assert (event.prompt, event.text, event.key, event.finish) == (shown, "red blue", KEY, "end")
    assert (event.prompt_tokens, event.generated_tokens) == (asyncio.run(model.count(prompt)), 3)
    assert event.tokens[1].logprob == near(-1.386, "as told", "3 decimals")
    assert event.seconds > 0


def test_wrapping_changes_nothing_but_the_trace_and_the_key():
    keys = []
    generate(recorded(ScriptedModel(lambda prompt, key: keys.append(key) or "yes"))[0])
    assert keys == [(7, "q1", *KEY)]
    plain = ScriptedModel()
    model, trace = recorded(plain, scope=())
    ours, theirs = (generate(each, 12, temperature=1.0, n=3) for each in (model, plain))
    assert [each.text for each in ours] == [each.text for each in theirs]
    assert [type(event) for event in trace.events] == [Generated] * 3, "every sample is an event"
    assert (model.name, model.capabilities) == (plain.name, plain.capabilities)
    assert model.context_tokens == plain.context_tokens
    assert model.decode(model.tokenize("a b")) == "a b"
    plain.signals = frozenset({"logprob"})
    assert model.signals == {"logprob"}, "a signal that a model turns out to lack is lacking here, too"


def test_scores_and_attention_are_traced():
    model, trace = recorded(ScriptedModel(scores={" yes": -0.5, " no": -1.5}), role="critic")
    asyncio.run(model.score(PROMPT, [" yes", " no"]))
    attention = asyncio.run(model.attend("red blue", bos=True))
    scored, attended = trace.events
    assert isinstance(scored, ScoredOptions)
    assert isinstance(attended, Attended)
    assert (scored.prompt, scored.options, scored.logprobs) == ("Say it now", (" yes", " no"), (-0.5, -1.5))
    assert scored.prompt_tokens == asyncio.run(model.count(PROMPT)) + 2
    assert attended.prompt_tokens == len(attention.ids) == 3
    assert {event.role for event in trace.events} == {"critic"}
    assert trace.usage().prompt_tokens == scored.prompt_tokens + 3


def test_searches_are_traced():
    trace, passage = Trace(), Passage("a", "Arno", "A river.")
    retriever = SessionRetriever(ScriptedRetriever({"river": [passage]}), Session(trace))
    hits = asyncio.run(retriever.search("river", 3))
    (event,) = trace.events
    assert isinstance(event, Searched)
    assert (event.query, event.k, event.hits, hits[0].passage) == ("river", 3, hits, passage)


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


FAILING_CALLS = {
    "draft 0": lambda model: model.generate(request()),
    "score": lambda model: model.score(PROMPT, ["yes"]),
    "attend": lambda model: model.attend("red", bos=True),
}


@pytest.mark.parametrize("place", FAILING_CALLS)
@pytest.mark.parametrize("error", [ValueError("no memory"), Panic("not a char boundary")])
def test_a_broken_model_is_recorded_and_named(place, error):
    model, trace = recorded(Broken(error))
    named = f"answer model broken, {place}: {type(error).__name__}: {error}"
    with pytest.raises(ModelFailure, match=named):
        asyncio.run(FAILING_CALLS[place](model))
    (event,) = trace.events
    assert isinstance(event, Failed)
    assert (event.error, event.message) == (type(error).__name__, str(error))
    assert event.place == f"answer model broken, {place}"


@pytest.mark.parametrize("error", [OSError("disk gone"), Panic("slice")])
def test_a_broken_retriever_is_recorded_and_named_and_an_interruption_is_none(error):
    trace = Trace()
    with pytest.raises(RetrieverFailure, match=f"retriever broken: {type(error).__name__}: {error}"):
        asyncio.run(SessionRetriever(Broken(error), Session(trace)).search("river", 3))
    assert [type(event) for event in trace.events] == [Failed]
    with pytest.raises(SystemExit):
        asyncio.run(SessionRetriever(Broken(SystemExit()), Session(trace)).search("river", 3))
    assert len(trace.events) == 1


def test_our_errors_keep_their_type():
    model, trace = recorded(ScriptedModel(context_tokens=5))
    with pytest.raises(PromptTooLong):
        generate(model, 30)
    with pytest.raises(InputError):
        asyncio.run(model.score(PROMPT, [""]))
    assert [event.error for event in trace.events] == ["PromptTooLong", "InputError"]


def test_an_error_of_a_watcher_is_none_of_the_model():
    def watch(text):
        raise ZeroDivisionError

    model, trace = recorded(ScriptedModel())
    with pytest.raises(ZeroDivisionError):
        generate(model, on_text=watch)
    assert trace.events == []
