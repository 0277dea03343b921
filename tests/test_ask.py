import asyncio
from dataclasses import dataclass

import pytest

from askance.ask import ask
from askance.core.errors import MissingAbility, ModelFailure, QuestionError
from askance.core.ports import Needs
from askance.core.trace import Answered, Asked, Failed, Trace
from askance.core.types import Answer, Question
from askance.methods.closed_book import ClosedBook
from askance.methods.dragin import Dragin
from askance.methods.fixed_length import FixedLength
from askance.methods.fixed_sentence import FixedSentence
from askance.methods.flare import Flare
from askance.methods.single import Single
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever

QUESTION = Question("q", "Which river?")


def test_the_trace_holds_question_and_answer():
    model = ScriptedModel([" The Arno."])
    method = ClosedBook(max_tokens=9, elicit=False)
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, seed=3))
    first, last = result.trace.events[0], result.trace.events[-1]
    assert isinstance(first, Asked)
    assert isinstance(last, Answered)
    assert (first.text, first.seed, first.models) == ("Which river?", 3, {"answer": "scripted"})
    assert "max_tokens=9" in first.method
    assert (last.answer, last.usage) == (result.answer, result.usage)
    assert result.usage.generated_tokens == 3


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


@pytest.mark.parametrize(
    "method", [Dragin(), Dragin(profile="paper"), Flare(), FixedSentence(), FixedLength()]
)
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
