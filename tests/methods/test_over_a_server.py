"""Every method that may run on a server by what it needs does run there, whatever the model says."""

import asyncio
import json

import pytest

from askance.configuration.build import load_model
from askance.configuration.methods import make_method, method_class
from askance.core.answers import UPPER_BOUND
from askance.core.errors import MissingAbility, ModelFailure
from askance.core.trace import Attended, Failed, Generated, Trace
from askance.core.types import Passage, Question
from askance.methods.dragin.method import Dragin
from askance.models.scripted import Reply, ScriptedEncoder, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.terminal.trace_view import spending_line, usage_line
from tests.asking import ask
from tests.laboratory import EVERY_METHOD
from tests.models.scripted_server import Fault, ScriptedServer

QUESTION = Question("q", "Which river is red?")
FOUND = tuple(Passage(f"p{number}", "Rivers", f"River {number} is red.") for number in range(3))
SHORT = {"max_tokens": 12, "max_searches": 3, "max_rounds": 3, "passages": 2}
LOCAL = ("dragin_paper", "dragin_authors", "selfrag_authors")
"""Methods that need attention of the model that answers, or reflection tokens, which no server has."""
RAW = "chat=0&completions=1&score=1&logprobs=1"


@pytest.fixture(scope="module")
def server():
    with ScriptedServer() as server:
        yield server


def short(name, limits=SHORT):
    """Return a method with those of the limits that it has; Blender has two members with theirs."""

    def known(name):
        return {limit: value for limit, value in limits.items() if hasattr(method_class(name), limit)}

    members = {each: known(each) for each in ("single", "iterdrag")} if name == "blender" else {}
    return make_method(name, known(name) | ({"methods": ",".join(members)} if members else {}) | members)


@pytest.mark.parametrize(("options", "is_upper_bound"), [(RAW, True), ("server=vllm", False)])
def test_tokens_that_nobody_counted_are_shown_as_an_upper_bound(server, options, is_upper_bound):
    models = {"answer": load_model(f"openai:tiny@{server.url}?{options}&attempts=1")}
    method = make_method("flare(max_tokens=12, passages=1, l_max=100000)")
    result = asyncio.run(ask(QUESTION, method, models, ScriptedRetriever(FOUND)))
    spent = result.trace.decisions[-1]
    assert result.usage.is_upper_bound == is_upper_bound
    assert ("calls read ≤ " in spent.why) == (" · ≤ " in usage_line(result.usage)) == is_upper_bound
    assert ("L_total ≤ " in spending_line(spent.numbers)) == is_upper_bound
    assert UPPER_BOUND not in spending_line(spent.numbers)


@pytest.mark.parametrize("options", ["server=vllm", "continuation=1&logprobs=1", RAW])
@pytest.mark.parametrize("name", [name for name in EVERY_METHOD if name not in LOCAL])
def test_every_method_that_may_runs(server, name, options):
    method = short(name)
    models = {"answer": load_model(f"openai:tiny@{server.url}?{options}&attempts=1")}
    if not method.needs.capabilities <= models["answer"].capabilities:
        assert method.needs.capabilities == {"raw"}, "the authors' code of FLARE, and a server of chats"
        return
    if method.needs.attention:
        models["attend"] = ScriptedModel()
    result = asyncio.run(ask(QUESTION, method, models, ScriptedRetriever(FOUND), encoder=ScriptedEncoder()))
    assert result.trace.committed.strip() == result.answer.text.strip()
    assert result.usage.generated_tokens > 0


BORN = Question("q", "Where was the director of Fanny and Alexander born?")
BERGMAN = (Passage("p1", "Ingmar Bergman", "Ingmar Bergman was born in Uppsala."),)


def unsure(shown, key):
    """Doubt the place until the passage is there; the last sentence states the answer."""
    so_far = shown.rpartition("Answer:" if "Answer:" in shown else "<|assistant|>")[2]
    if "Uppsala." in so_far:
        return " So the answer is Uppsala."
    if "in Uppsala" in shown:
        return " Uppsala. So the" if so_far.endswith(" in") else " He was born in Uppsala. So the"
    beside = {"Stockholm": {" Lund": 0.3, " Bonn": 0.2}}
    return Reply(" He was born in Stockholm. So the", doubts={"Stockholm": 0.4}, beside=beside)


@pytest.fixture
def unsure_server():
    with ScriptedServer(ScriptedModel(unsure)) as server:
        yield server


def asked_dragin(server, options, proxy, trace=None, **parameters):
    models = {"answer": load_model(f"openai:tiny@{server.url}?attempts=1&{options}"), "attend": proxy}
    retriever = ScriptedRetriever(BERGMAN)
    result = asyncio.run(ask(BORN, Dragin(**parameters), models, retriever, trace=trace))
    return result, retriever.queries


@pytest.mark.parametrize(
    "options", ["completions=1&top_logprobs=5", "server=vllm", "continuation=1&top_logprobs=5"]
)
def test_dragin_asks_with_what_a_small_local_model_attends_to(unsure_server, llama, options):
    result, queries = asked_dragin(
        unsure_server, options, llama, threshold=1e-6, max_searches=1, search_first=False
    )
    assert len(queries) == 1
    assert queries[0]
    assert result.answer.short == "Uppsala"
    assert any(isinstance(event, Attended) and event.role == "attend" for event in result.trace.events)
    writing = next(event for event in result.trace.events if isinstance(event, Generated))
    doubt = next(token for token in writing.tokens if "Stockholm" in token.text)
    assert doubt.entropy > 1.0, "the entropy of the alternatives that the server reports"
    paths = {"/v1/completions", "/v1/chat/completions", "/tokenize"}
    assert {request.path for request in unsure_server.requests} <= paths


def test_dragin_does_so_from_the_command_line(unsure_server, llama_folder, sample_index, run):
    code, out, err = run(
        "ask", BORN.text, "--index", sample_index, "--set", "threshold=1e-6", "--set", "max_searches=2",
        "--model", f"openai:tiny@{unsure_server.url}?completions=1&logprobs=1",
        "--model", f"attend=hf:{llama_folder}", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["short_answer"] == "Uppsala"
    assert json.loads(out)["usage"]["searches"] == 2


def test_a_server_that_lies_is_in_the_trace_and_one_of_chats_is_refused(unsure_server, llama):
    with pytest.raises(MissingAbility, match="method dragin needs logprob, raw or chat with continuation"):
        asked_dragin(unsure_server, "chat=1", llama)
    assert not unsure_server.requests
    unsure_server.faults.append(Fault(events=[{"choices": [{"text": " He was", "finish_reason": "stop"}]}]))
    trace = Trace()
    with pytest.raises(ModelFailure, match="gave no log-probabilities"):
        asked_dragin(unsure_server, "completions=1&top_logprobs=5", llama, trace, search_first=False)
    failed = next(event for event in trace.events if isinstance(event, Failed))
    assert failed.place == f"answer model tiny@{unsure_server.url}, sentence 0"
