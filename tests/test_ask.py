import asyncio
from dataclasses import dataclass

import pytest

from askance.ask import ask, describe_models
from askance.core.answers import Answer
from askance.core.errors import AskanceError, MissingAbility, ModelFailure, QuestionError
from askance.core.ports import ChecksModels, Needs
from askance.core.trace import Answered, Asked, Failed, Generated, Trace
from askance.core.types import GenerateRequest, Question, Raw, Sampling, Span
from askance.methods.baselines import ClosedBook, FixedLength, FixedSentence, Single
from askance.methods.dragin.method import Dragin
from askance.methods.dragin.paper import DraginPaper
from askance.methods.flare import Flare
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever

QUESTION = Question("q", "Which river?")


def test_the_trace_holds_question_and_answer():
    model = ScriptedModel([" The Arno."])
    method = ClosedBook(max_tokens=9, ask_short_answer=False)
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, seed=3))
    first, last = result.trace.events[0], result.trace.events[-1]
    assert isinstance(first, Asked)
    assert isinstance(last, Answered)
    assert (first.text, first.seed, first.models) == ("Which river?", 3, {"answer": "scripted"})
    assert first.precisions == {}, "nobody tells"
    assert "max_tokens=9" in first.method
    assert (last.answer, last.usage) == (result.answer, result.usage)
    assert result.usage.generated_tokens == 3


def test_the_trace_holds_the_precision_of_each_model():
    model = ScriptedModel([" The Arno."])
    model.precision = "bfloat16"
    result = asyncio.run(ask(QUESTION, ClosedBook(ask_short_answer=False), {"answer": model}))
    assert result.trace.events[0].precisions == {"answer": "bfloat16"}


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_question(text):
    with pytest.raises(QuestionError, match="the question is empty"):
        asyncio.run(ask(Question("q", text), ClosedBook(), {"answer": ScriptedModel()}))


def test_a_question_that_is_not_unicode():
    with pytest.raises(QuestionError, match="not valid Unicode"):
        asyncio.run(ask(Question("q", "who \udcff?"), ClosedBook(), {"answer": ScriptedModel()}))


def test_what_a_listener_raises_is_not_the_models_fault():
    def listener(event):
        if event.type == "commit":
            raise KeyError("listener")

    with pytest.raises(KeyError, match="listener"):
        asyncio.run(ask(QUESTION, ClosedBook(), {"answer": ScriptedModel([" Arno."])}, trace=Trace(listener)))


def test_a_method_that_searches_needs_something_to_search():
    with pytest.raises(MissingAbility, match=r"name an index.*closed_book"):
        asyncio.run(ask(QUESTION, Single(), {"answer": ScriptedModel()}))


@pytest.mark.parametrize("method", [Dragin(), DraginPaper(), Flare(), FixedSentence(), FixedLength()])
def test_a_method_that_goes_on_from_its_text_says_so_before_anything_runs(method):
    model, retriever = ScriptedModel(capabilities=frozenset({"chat"})), ScriptedRetriever()
    with pytest.raises(MissingAbility, match="needs raw or chat with continuation"):
        asyncio.run(ask(QUESTION, method, {"answer": model}, retriever))
    assert not retriever.queries


@pytest.mark.parametrize(("layout", "other"), [("raw", "chat"), ("chat", "raw")])
def test_a_layout_that_the_model_does_not_take(layout, other):
    model = ScriptedModel(capabilities=frozenset({other}))
    with pytest.raises(MissingAbility, match=f"needs {layout}"):
        asyncio.run(ask(QUESTION, ClosedBook(layout=layout), {"answer": model}))


@dataclass(frozen=True)
class Picky:
    """Asks a critic where there is one, and answers with models of four letters alone."""

    needs = Needs(roles=frozenset({"critic"}))

    def check_models(self, models):
        long = [f"{role}={model.name}" for role, model in sorted(models.items()) if len(model.name) != 4]
        if long:
            raise MissingAbility(f"method picky takes no {long[0]}: use another.")

    async def answer(self, question, run):
        return Answer(" ".join(sorted(run.models)))


def test_roles_that_a_method_may_ask_may_be_given_or_not():
    short = ScriptedModel(name="four")
    assert asyncio.run(ask(QUESTION, Picky(), {"answer": short})).answer.text == "answer"
    both = {"answer": short, "critic": short}
    assert asyncio.run(ask(QUESTION, Picky(), both)).answer.text == "answer critic"
    with pytest.raises(MissingAbility, match=r"uses no model in the role judge: leave out --model judge"):
        asyncio.run(ask(QUESTION, Picky(), both | {"judge": short}))
    with pytest.raises(MissingAbility, match=r"uses no model in the role critic"):
        asyncio.run(ask(QUESTION, ClosedBook(), both))


def test_a_method_may_look_at_the_models_before_anything_runs():
    models, trace = {"answer": ScriptedModel(name="four"), "critic": ScriptedModel()}, Trace()
    with pytest.raises(MissingAbility, match="picky takes no critic=scripted"):
        asyncio.run(ask(QUESTION, Picky(), models, trace=trace))
    assert trace.events == []
    assert isinstance(Picky(), ChecksModels)
    assert not isinstance(Sleeper(), ChecksModels)


def test_no_model():
    with pytest.raises(MissingAbility, match="role 'answer'"):
        asyncio.run(ask(QUESTION, ClosedBook(), {}))


def test_a_failure_is_in_the_trace_once():
    trace = Trace()
    with pytest.raises(ModelFailure):
        asyncio.run(ask(QUESTION, ClosedBook(), {"answer": ScriptedModel([OSError("gone")])}, trace=trace))
    assert [type(event) for event in trace.events] == [Asked, Failed]


@dataclass(frozen=True)
class Sleeper:
    needs = Needs()

    async def answer(self, question, run):
        run.trace.commit("One sheep.")
        await asyncio.sleep(60)
        return Answer("never")


@dataclass(frozen=True)
class Both:
    """Two calls side by side, of which one breaks; the other is recorded behind the failure."""

    needs = Needs()

    async def answer(self, question, run):
        calls = [
            run.model.generate(GenerateRequest(Raw((Span(text),)), Sampling(3), key=(text,)))
            for text in ("bad", "good")
        ]
        broken, _ = await asyncio.gather(*calls, return_exceptions=True)
        raise broken


def test_a_failure_beside_other_calls_is_in_the_trace_once():
    trace = Trace()
    model = ScriptedModel(lambda prompt, key: OSError("gone") if prompt == "bad" else "One.")
    with pytest.raises(ModelFailure):
        asyncio.run(ask(QUESTION, Both(), {"answer": model}, trace=trace))
    assert [type(event) for event in trace.events] == [Asked, Failed, Generated]


def test_an_interruption_is_in_the_trace():
    async def interrupted(trace):
        task = asyncio.create_task(ask(QUESTION, Sleeper(), {"answer": ScriptedModel()}, trace=trace))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    trace = Trace()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted(trace))
    assert isinstance(trace.events[-1], Failed)
    assert (trace.events[-1].error, trace.events[-1].message) == ("CancelledError", "interrupted")
    assert trace.committed == "One sheep."


@pytest.mark.parametrize("where", ["model", "tokenizer"])
def test_a_panic_becomes_an_error_of_ours(where):
    """Whoever asks sees no exception that is no `Exception`; the trace has it once."""

    class Panic(BaseException):
        pass

    def panic(*given, **named):
        raise Panic("not a char boundary")

    model = ScriptedModel(panic if where == "model" else None)
    if where == "tokenizer":
        model.count = model.tokenize = panic
    trace = Trace()
    with pytest.raises(AskanceError, match="Panic: not a char boundary"):
        asyncio.run(ask(Question("q", "Where?"), ClosedBook(), {"answer": model}, trace=trace))
    (failed,) = [event for event in trace.events if isinstance(event, Failed)]
    assert "not a char boundary" in failed.message


def test_models_are_told_with_what_they_compute_in_where_that_is_known():
    assert describe_models({"attend": "b", "answer": "a"}, {"answer": "float32"}) == "a (float32), attend: b"
    assert describe_models({}, {}) == "none"
