"""DRAGIN with an answering model behind a server, and the attention of a small local one."""

import asyncio
import json

import pytest

from askance.ask import ask
from askance.configuration.build import load_model
from askance.core.errors import MissingAbility, ModelFailure
from askance.core.trace import Attended, Failed, Generated, Trace
from askance.core.types import Passage, Question
from askance.methods.dragin.method import Dragin
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.models.scripted_server import Fault, ScriptedServer

QUESTION = Question("q", "Where was the director of Fanny and Alexander born?")
FOUND = (Passage("p1", "Ingmar Bergman", "Ingmar Bergman was born in Uppsala."),)


def reply(shown, key):
    """Doubtful about the place until the passage is there; the last sentence states the answer."""
    so_far = shown.rpartition("Answer:")[2] if "Answer:" in shown else shown.rpartition("<|assistant|>")[2]
    if "Uppsala." in so_far:
        return " So the answer is Uppsala."
    if "in Uppsala" in shown:
        return " Uppsala. So the" if so_far.endswith(" in") else " He was born in Uppsala. So the"
    return Reply(" He was born in Stockholm. So the", beside={"Stockholm": {" Lund": 0.3, " Bonn": 0.2}},
                 doubts={"Stockholm": 0.4})  # fmt: skip


@pytest.fixture
def server():
    with ScriptedServer(ScriptedModel(reply)) as server:
        yield server


def models(server, options, proxy):
    return {"answer": load_model(f"openai:tiny@{server.url}?attempts=1&{options}"), "attend": proxy}


@pytest.mark.parametrize(
    "options", ["completions=1&top_logprobs=5", "server=vllm", "continuation=1&top_logprobs=5"]
)
def test_dragin_with_a_proxy_on_raw_prompts_and_on_chats(server, llama, options):
    method = Dragin(threshold=1e-6, max_searches=1, search_first=False)
    retriever = ScriptedRetriever(FOUND)
    result = asyncio.run(ask(QUESTION, method, models(server, options, llama), retriever))
    assert len(retriever.queries) == 1
    assert retriever.queries[0], "the query is made of what the proxy attended to"
    assert result.answer.short == "Uppsala"
    assert any(isinstance(event, Attended) and event.role == "attend" for event in result.trace.events)
    writing = [event for event in result.trace.events if isinstance(event, Generated)]
    doubt = next(token for token in writing[0].tokens if "Stockholm" in token.text)
    assert doubt.entropy > 1.0, "the entropy of the alternatives that the server told"
    assert {request.path for request in server.requests} <= {
        "/v1/completions", "/v1/chat/completions", "/tokenize",
    }  # fmt: skip


def test_the_same_from_the_command_line(server, llama_folder, sample_index, run):
    code, out, err = run(
        "ask", QUESTION.text, "--index", sample_index, "--set", "threshold=1e-6", "--set", "max_searches=2",
        "--model", f"openai:tiny@{server.url}?completions=1&logprobs=1",
        "--model", f"attend=hf:{llama_folder}", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["short_answer"] == "Uppsala"
    assert json.loads(out)["usage"]["searches"] == 2


def test_a_server_that_lies_is_in_the_trace(server, llama):
    server.faults.append(Fault(events=[{"choices": [{"text": " He was", "finish_reason": "stop"}]}]))
    trace = Trace()
    method, lying = Dragin(search_first=False), models(server, "completions=1&top_logprobs=5", llama)
    with pytest.raises(ModelFailure, match="gave no log-probabilities"):
        asyncio.run(ask(QUESTION, method, lying, ScriptedRetriever(FOUND), trace=trace))
    failed = next(event for event in trace.events if isinstance(event, Failed))
    assert failed.place == f"answer model tiny@{server.url}, sentence 0"


def test_chat_alone_is_not_enough_for_dragin(server, llama):
    with pytest.raises(MissingAbility, match="method dragin needs logprob, raw or chat with continuation"):
        asyncio.run(ask(QUESTION, Dragin(), models(server, "chat=1", llama), ScriptedRetriever(FOUND)))
    assert not server.requests
