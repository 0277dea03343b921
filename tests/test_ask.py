"""One question in Python: the checks before it, its trace, failures, and the answer as a stream."""

import asyncio
import json
from dataclasses import dataclass, replace
from html import escape

import pytest

from askance.ask import Engine, describe_models
from askance.configuration.build import open_retriever
from askance.configuration.methods import make_method
from askance.configuration.settings import open_engine
from askance.core.answers import Answer
from askance.core.errors import AskanceError, BudgetTooSmall, MissingAbility, ModelFailure, QuestionError
from askance.core.ports import ChecksModels, Needs
from askance.core.trace import Answered, Asked, Failed, Generated, Trace
from askance.core.types import GenerateRequest, Passage, Question, Raw, Sampling, Span
from askance.methods.baselines import ClosedBook, FixedLength, FixedSentence, Single
from askance.methods.dragin.method import Dragin
from askance.methods.dragin.paper import DraginPaper
from askance.methods.flare import Flare
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.asking import ask

QUESTION = Question("q", "Which river?")


def asked(method, question=QUESTION, models=None, retriever=None, **options):
    models = {"answer": ScriptedModel()} if models is None else models
    return asyncio.run(ask(question, method, models, retriever, **options))


@dataclass(frozen=True)
class Picky:
    """A method that may ask a critic, and that takes only models with names of four letters."""

    needs = Needs(roles=frozenset({"critic"}))

    def check_models(self, models):
        long = [f"{role}={model.name}" for role, model in sorted(models.items()) if len(model.name) != 4]
        if long:
            raise MissingAbility(f"method picky takes no {long[0]}: use another.")

    async def answer(self, question, run):
        return Answer(" ".join(sorted(run.models)))


@dataclass(frozen=True)
class Sleeper:
    needs = Needs()

    async def answer(self, question, run):
        run.trace.commit("One sheep.")
        await asyncio.sleep(60)


@dataclass(frozen=True)
class Both:
    """Two calls at the same time, of which one fails; the other is recorded after the failure."""

    needs = Needs()

    async def answer(self, question, run):
        requests = [GenerateRequest(Raw((Span(x),)), Sampling(3), key=(x,)) for x in ("bad", "good")]
        broken, _ = await asyncio.gather(*map(run.model.generate, requests), return_exceptions=True)
        raise broken


def test_the_trace_holds_question_answer_and_the_precision_of_each_model():
    model = ScriptedModel([" The Arno."] * 2)
    method = ClosedBook(max_tokens=9, ask_short_answer=False)
    result = asked(method, models={"answer": model}, seed=3)
    first, last = result.trace.events[0], result.trace.events[-1]
    assert (type(first), type(last)) == (Asked, Answered)
    assert (first.text, first.seed, first.models) == ("Which river?", 3, {"answer": "scripted"})
    assert (first.precisions, "max_tokens=9" in first.method) == ({}, True)
    assert (last.answer, last.usage) == (result.answer, result.usage)
    assert result.usage.generated_tokens == 3
    model.precision = "bfloat16"
    assert asked(method, models={"answer": model}).trace.events[0].precisions == {"answer": "bfloat16"}
    assert describe_models({"attend": "b", "answer": "a"}, {"answer": "float32"}) == "a (float32), attend: b"
    assert describe_models({}, {}) == "none"


CHAT, RAW = (ScriptedModel(capabilities=frozenset({each})) for each in ("chat", "raw"))
FOUR, SCRIPTED = ScriptedModel(name="four"), ScriptedModel()
CONTINUING = (Dragin(), DraginPaper(), Flare(), FixedSentence(), FixedLength())
REFUSED = [
    (ClosedBook(), Question("q", ""), {}, QuestionError, "the question is empty"),
    (ClosedBook(), None, {}, QuestionError, "None is no question: give a text, or an askance.Question."),
    (ClosedBook(), Question("q", "  \n"), {}, QuestionError, "the question is empty"),
    (ClosedBook(), Question("q", "who \udcff?"), {}, QuestionError, "not valid Unicode"),
    (Single(), QUESTION, {"retriever": None}, MissingAbility, r"name an index.*closed_book"),
    *(
        (each, QUESTION, {"answer": CHAT}, MissingAbility, "raw or chat with continuation")
        for each in CONTINUING
    ),
    (ClosedBook(layout="raw"), QUESTION, {"answer": CHAT}, MissingAbility, "needs raw"),
    (ClosedBook(layout="chat"), QUESTION, {"answer": RAW}, MissingAbility, "needs chat"),
    (ClosedBook(), QUESTION, {"answer": None}, MissingAbility, "role 'answer'"),
    (ClosedBook(), QUESTION, {"critic": FOUR}, MissingAbility, "uses no model in the role critic"),
    (
        Picky(),
        QUESTION,
        {"answer": FOUR, "judge": FOUR},
        MissingAbility,
        "role judge: leave out --model judge",
    ),
    (
        Picky(),
        QUESTION,
        {"answer": FOUR, "critic": SCRIPTED},
        MissingAbility,
        "picky takes no critic=scripted",
    ),
]


@pytest.mark.parametrize(("method", "question", "given", "error", "told"), REFUSED, ids=range(len(REFUSED)))
def test_what_can_not_be_asked_is_refused_before_anything_runs(method, question, given, error, told):
    models = {role: model for role, model in ({"answer": SCRIPTED} | given).items() if model}
    retriever, trace = models.pop("retriever", ScriptedRetriever()), Trace()
    with pytest.raises(error, match=told):
        asked(method, question, models, None if "retriever" in given else retriever, trace=trace)
    assert (trace.events, retriever.queries) == ([], [])


def test_roles_that_a_method_may_ask_may_be_given_or_not():
    assert asked(Picky(), models={"answer": FOUR}).answer.text == "answer"
    assert asked(Picky(), models={"answer": FOUR, "critic": FOUR}).answer.text == "answer critic"
    assert (isinstance(Picky(), ChecksModels), isinstance(Sleeper(), ChecksModels)) == (True, False)


def test_a_model_that_streams_nothing_answers():
    class Silent(ScriptedModel):
        async def generate(self, request):
            return await super().generate(replace(request, on_text=None))

    assert asked(ClosedBook(), models={"answer": Silent(["Bonn."] * 2)}).answer.text == "Bonn."


def test_an_exception_of_a_listener_is_not_the_models_fault():
    def listener(event):
        if event.type == "commit":
            raise KeyError("listener")

    with pytest.raises(KeyError, match="listener"):
        asked(ClosedBook(), models={"answer": ScriptedModel([" Arno."])}, trace=Trace(listener))


def test_a_failure_is_in_the_trace_once():
    for method, replies, types in (
        (ClosedBook(), [OSError("gone")], [Asked, Failed]),
        (Both(), lambda text, key: OSError("gone") if text == "bad" else "One.", [Asked, Failed, Generated]),
    ):
        trace = Trace()
        with pytest.raises(ModelFailure):
            asked(method, models={"answer": ScriptedModel(replies)}, trace=trace)
        assert [type(event) for event in trace.events] == types


def test_an_interruption_is_in_the_trace():
    async def interrupted(trace):
        task = asyncio.create_task(ask(QUESTION, Sleeper(), {"answer": ScriptedModel()}, trace=trace))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    trace = Trace()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted(trace))
    assert (trace.events[-1].error, trace.events[-1].message) == ("CancelledError", "interrupted")
    assert trace.committed == "One sheep."


@pytest.mark.parametrize("where", ["model", "tokenizer"])
def test_a_panic_becomes_an_error_of_askance(where):
    """The caller sees no exception that is no `Exception`; the trace has it once."""

    class Panic(BaseException):
        pass

    def panic(*given, **named):
        raise Panic("not a char boundary")

    model, trace = ScriptedModel(panic if where == "model" else None), Trace()
    if where == "tokenizer":
        model.count = model.tokenize = panic
    with pytest.raises(AskanceError, match="Panic: not a char boundary"):
        asked(ClosedBook(), models={"answer": model}, trace=trace)
    (failed,) = [event for event in trace.events if isinstance(event, Failed)]
    assert "not a char boundary" in failed.message


# Streams.

REPLIES = [
    {"text": " Fanny and Alexander was directed by Ingmar Bergman. Then", "doubts": {"Bergman": 0.3}},
    {"text": " Fanny and Alexander was directed by Ingmar Bergman. Then"},
    {"text": " So the answer is Uppsala."},
]


@pytest.mark.parametrize("method", ["single", "flare", "dragin"])
def test_a_stream_has_the_answer_piece_by_piece_and_then_whole(tmp_path, sample_index, method):
    path, text = tmp_path / "replies.jsonl", "Where was the director of Fanny and Alexander born?"
    path.write_text("\n".join(map(json.dumps, REPLIES)))
    streamed, whole = (
        open_engine(method=method, model=f"scripted:{path}", index=sample_index) for _ in range(2)
    )

    async def listen():
        return [event async for event in streamed.stream(text)]

    events = asyncio.run(listen())
    assert [events[0].type, events[-1].type] == ["question", "answer"]
    pieces = [event.text for event in events if event.type == "commit"]
    assert ("".join(pieces).strip(), len(pieces) > 1) == (events[-1].answer.text, True)
    assert whole.ask(text).answer == events[-1].answer


def test_events_are_received_while_they_happen(sample_index):
    """The model does not answer before the search has been received."""
    received_search = asyncio.Event()

    class Patient(ScriptedModel):
        async def generate(self, request):
            await asyncio.wait_for(received_search.wait(), 60)
            return await super().generate(request)

    async def listen():
        engine = Engine(make_method("single"), {"answer": Patient()}, open_retriever(sample_index))
        async for event in engine.stream("Where?"):
            if event.type == "search":
                received_search.set()
        return event.type

    assert asyncio.run(listen()) == "answer"


def test_a_stream_ends_with_the_error_and_stops_with_its_listener(sample_index):
    engine = open_engine(method="single", model="scripted", index=sample_index, parameters={"l_max": 1})
    seen = []

    async def listen():
        async for event in engine.stream("Where?"):
            seen.append(event.type)

    with pytest.raises(BudgetTooSmall):
        asyncio.run(listen())
    assert (seen[0], seen[-1]) == ("question", "error")

    class Slow(ScriptedModel):
        is_cancelled = False

        async def generate(self, request):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.is_cancelled = True
                raise

    async def stop():
        model = Slow()
        stream = Engine(make_method("closed_book"), {"answer": model}).stream("Where?")
        assert (await anext(stream)).type == "question"
        await asyncio.sleep(0)
        await stream.aclose()
        return model.is_cancelled

    assert asyncio.run(stop())


def test_a_result_shows_its_answer_and_sources_and_in_a_notebook_its_decisions():
    passage = Passage("p", "<b>Bonn\x1b", "Bonn lies on the Rhine.", "rivers.txt", page=3)
    model = ScriptedModel([" <i>Bonn</i> lies on the Rhine."])
    method = make_method("single", {"ask_short_answer": False})
    engine = Engine(method, {"answer": model}, ScriptedRetriever([passage]))
    result = engine.ask("Where does Bonn lie?")
    shown = "<i>Bonn</i> lies on the Rhine [1].\n\nSources:\n[1] <b>Bonn�, rivers.txt, p. 3"
    assert str(result) == shown
    html = result._repr_html_()
    assert html.startswith(f"<p>{escape(shown).replace(chr(10), '<br>')}</p><details><summary>")
    assert "retrieve: search Where does Bonn lie?" in html
    assert not {"<b>", "<i>", "\x1b"} & {html[at : at + 3] for at in range(len(html))}
