"""An answer as a stream of events, from Python."""

import asyncio
import json

import pytest

from askance.ask import Engine
from askance.configuration.build import open_retriever
from askance.configuration.methods import make_method
from askance.configuration.settings import open_engine
from askance.core.errors import BudgetTooSmall
from askance.models.scripted import ScriptedModel

REPLIES = [
    {"text": " Fanny and Alexander was directed by Ingmar Bergman. Then", "doubts": {"Bergman": 0.3}},
    {"text": " Fanny and Alexander was directed by Ingmar Bergman. Then"},
    {"text": " So the answer is Uppsala."},
]
QUESTION = "Where was the director of Fanny and Alexander born?"


def opened(tmp_path, sample_index, method):
    path = tmp_path / "replies.jsonl"
    path.write_text("\n".join(map(json.dumps, REPLIES)))
    return open_engine(method=method, model=f"scripted:{path}", index=sample_index)


def heard(engine):
    async def listen():
        return [event async for event in engine.stream(QUESTION)]

    return asyncio.run(listen())


@pytest.mark.parametrize("method", ["single", "flare", "dragin"])
def test_a_stream_has_the_answer_piece_by_piece_and_then_whole(tmp_path, sample_index, method):
    events = heard(opened(tmp_path, sample_index, method))
    assert [events[0].type, events[-1].type] == ["question", "answer"]
    text = "".join(event.text for event in events if event.type == "commit")
    assert text.strip() == events[-1].answer.text
    assert sum(event.type == "commit" for event in events) > 1
    asked = opened(tmp_path, sample_index, method).ask(QUESTION)
    assert asked.answer == events[-1].answer


def test_what_happens_is_heard_while_it_happens(sample_index):
    """The model does not answer before the search has been heard of."""
    heard_of_search = asyncio.Event()

    class Patient(ScriptedModel):
        async def generate(self, request):
            await asyncio.wait_for(heard_of_search.wait(), 60)
            return await super().generate(request)

    async def listen():
        engine = Engine(make_method("single"), {"answer": Patient()}, open_retriever(sample_index))
        async for event in engine.stream(QUESTION):
            if event.type == "search":
                heard_of_search.set()
        return event.type

    assert asyncio.run(listen()) == "answer"


def test_a_stream_raises_what_ends_the_question_behind_its_events(sample_index):
    engine = open_engine(method="single", model="scripted", index=sample_index, parameters={"l_max": 1})
    seen = []

    async def listen():
        async for event in engine.stream(QUESTION):
            seen.append(event.type)

    with pytest.raises(BudgetTooSmall):
        asyncio.run(listen())
    assert seen[0] == "question"
    assert seen[-1] == "error"


def test_who_stops_listening_gives_the_question_up():
    class Slow(ScriptedModel):
        was_given_up = False

        async def generate(self, request):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.was_given_up = True
                raise

    async def listen():
        model = Slow()
        stream = Engine(make_method("closed_book"), {"answer": model}).stream(QUESTION)
        assert (await anext(stream)).type == "question"
        await asyncio.sleep(0)
        await stream.aclose()
        return model.was_given_up

    assert asyncio.run(listen())
