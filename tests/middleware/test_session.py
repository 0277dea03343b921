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


def recorded(model, role="answer", scope=(7, "q1")):
    trace = Trace()
    return SessionModel(model, role, Session(trace, scope)), trace


def test_a_generation_is_traced_with_what_it_cost():
    model, trace = recorded(ScriptedModel([Reply("red blue", doubts={"blue": 0.25})]))
    asyncio.run(model.generate(GenerateRequest(PROMPT, Sampling(9), Want(logprob=True), key=("draft", 0))))
    (event,) = trace.events
    assert isinstance(event, Generated)
    assert (event.prompt, event.text, event.key, event.finish) == (
        "Say it now",
        "red blue",
        ("draft", 0),
        "end",
    )
    assert (event.prompt_tokens, event.generated_tokens) == (asyncio.run(model.count(PROMPT)), 3)
    assert event.tokens[1].logprob == near(-1.386, "as told", "3 decimals")
    assert event.seconds > 0


def test_seed_and_question_are_put_into_the_key():
    keys = []
    model, _ = recorded(ScriptedModel(lambda prompt, key: keys.append(key) or "yes"))
    asyncio.run(model.generate(GenerateRequest(PROMPT, Sampling(3), key=("draft", 0))))
    assert keys == [(7, "q1", "draft", 0)]


def test_wrapping_changes_nothing_but_the_trace():
    plain = ScriptedModel()
    model, _ = recorded(plain, scope=())
    sampling = Sampling(12, temperature=1.0)
    (one,) = asyncio.run(model.generate(GenerateRequest(PROMPT, sampling, key=("a",))))
    (two,) = asyncio.run(plain.generate(GenerateRequest(PROMPT, sampling, key=("a",))))
    assert one.text == two.text
    assert (model.name, model.signals, model.capabilities) == (plain.name, plain.signals, plain.capabilities)
    assert model.context_tokens == plain.context_tokens
    assert model.decode(model.tokenize("a b")) == "a b"


def test_every_sample_is_an_event():
    model, trace = recorded(ScriptedModel())
    asyncio.run(model.generate(GenerateRequest(PROMPT, Sampling(3), n=3, key=("a",))))
    assert [type(event) for event in trace.events] == [Generated] * 3


def test_scores_and_attention_are_traced():
    model, trace = recorded(ScriptedModel(scores={" yes": -0.5, " no": -1.5}), role="critic")
    scores = asyncio.run(model.score(PROMPT, [" yes", " no"]))
    attention = asyncio.run(model.attend("red blue", bos=True))
    assert [type(event) for event in trace.events] == [ScoredOptions, Attended]
    assert trace.events[0].logprobs == tuple(score.logprob for score in scores)
    assert trace.events[1].prompt_tokens == len(attention.ids) == 3
    assert {event.role for event in trace.events} == {"critic"}
    assert trace.usage().prompt_tokens == trace.events[0].prompt_tokens + 3


def test_chat_prompts_are_shown_by_turn():
    model, trace = recorded(ScriptedModel(["fine"]))
    chat = Chat((Turn("user", (Span("how"),)),), (Span("I am"),))
    asyncio.run(model.generate(GenerateRequest(chat, Sampling(3), key=("a",))))
    assert trace.events[0].prompt == "<user>\nhow\n<assistant>\nI am"


def test_a_broken_model_is_recorded_and_named():
    model, trace = recorded(ScriptedModel([ValueError("no memory")]))
    with pytest.raises(ModelFailure, match="answer model scripted, draft 0: ValueError: no memory"):
        asyncio.run(model.generate(GenerateRequest(PROMPT, Sampling(3), key=("draft", 0))))
    (event,) = trace.events
    assert isinstance(event, Failed)
    assert (event.error, event.message) == ("ValueError", "no memory")


def test_our_own_errors_keep_their_type():
    model, trace = recorded(ScriptedModel(context_tokens=5))
    with pytest.raises(PromptTooLong):
        asyncio.run(model.generate(GenerateRequest(PROMPT, Sampling(30), key=("a",))))
    with pytest.raises(InputError):
        asyncio.run(model.score(PROMPT, [""]))
    assert [event.error for event in trace.events] == ["PromptTooLong", "InputError"]


def test_searches_are_traced_and_failures_named():
    trace = Trace()
    passage = Passage("a", "Arno", "A river.")
    retriever = SessionRetriever(ScriptedRetriever({"river": [passage]}), Session(trace))
    hits = asyncio.run(retriever.search("river", 3))
    (event,) = trace.events
    assert isinstance(event, Searched)
    assert event.hits == hits
    assert hits[0].passage == passage

    class Broken:
        name = "broken"

        async def search(self, query, k, *, exclude=frozenset()):
            raise OSError("disk gone")

    with pytest.raises(RetrieverFailure, match="retriever broken: OSError: disk gone"):
        asyncio.run(SessionRetriever(Broken(), Session(trace)).search("river", 3))
    assert isinstance(trace.events[-1], Failed)


class Panic(BaseException):
    """Like that of a Rust extension: no `Exception`."""


class Panicking(ScriptedModel):
    def _panic(self, *given, **named):
        raise Panic("not a char boundary")

    generate = score = attend = _panic


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.generate(GenerateRequest(PROMPT, Sampling(3), key=("draft", 0))),
        lambda model: model.score(PROMPT, ["yes"]),
        lambda model: model.attend("red", bos=True),
    ],
)
def test_the_panic_of_a_model_is_a_failure_of_it(call):
    model, trace = recorded(Panicking())
    with pytest.raises(ModelFailure, match=r"answer model scripted, .*: Panic: not a char boundary"):
        asyncio.run(call(model))
    assert [(event.error, event.message) for event in trace.events] == [("Panic", "not a char boundary")]


def test_the_panic_of_a_retriever_is_a_failure_of_it_and_an_interruption_is_none():
    class Broken:
        name = "broken"

        async def search(self, query, k, *, exclude=frozenset()):
            raise Panic("slice") if query == "panic" else SystemExit

    trace = Trace()
    with pytest.raises(RetrieverFailure, match="retriever broken: Panic: slice"):
        asyncio.run(SessionRetriever(Broken(), Session(trace)).search("panic", 3))
    with pytest.raises(SystemExit):
        asyncio.run(SessionRetriever(Broken(), Session(trace)).search("exit", 3))
    assert len(trace.events) == 1


def test_a_signal_that_a_model_turns_out_to_lack_is_lacking_in_its_wrappers_too():
    model = ScriptedModel()
    wrapped = recorded(model)[0]
    model.signals = frozenset({"logprob"})
    assert wrapped.signals == {"logprob"}
