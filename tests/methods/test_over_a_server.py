"""Every method that may run on a server by what it needs does run there, whatever the model says."""

import asyncio
import dataclasses

import pytest

from askance.ask import ask
from askance.configuration.build import load_model
from askance.configuration.methods import make_method, method_class
from askance.core.answers import UPPER_BOUND
from askance.core.types import Passage, Question
from askance.models.scripted import ScriptedEncoder, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.terminal.trace_view import spending_line, usage_line
from tests.laboratory import EVERY_METHOD
from tests.models.scripted_server import ScriptedServer

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


def short(name):
    known = {field.name for field in dataclasses.fields(method_class(name))}
    return make_method(name, {parameter: value for parameter, value in SHORT.items() if parameter in known})


def test_tokens_that_nobody_counted_are_shown_as_an_upper_bound(server):
    def asked(options, **parameters):
        models = {"answer": load_model(f"openai:tiny@{server.url}?{options}&attempts=1")}
        method = make_method("flare", {"max_tokens": 12, "passages": 1, **parameters})
        return asyncio.run(ask(QUESTION, method, models, ScriptedRetriever(FOUND)))

    bound, exact = asked(RAW, l_max=100_000), asked("server=vllm", l_max=100_000)
    assert (bound.usage.is_upper_bound, exact.usage.is_upper_bound) == (True, False)
    spent = {result: result.trace.decisions[-1] for result in (bound, exact)}
    assert "calls read ≤ " in spent[bound].why
    assert "≤" not in spent[exact].why
    assert " · ≤ " in usage_line(bound.usage)
    assert "≤" not in usage_line(exact.usage)
    assert "L_total ≤ " in spending_line(spent[bound].numbers)
    assert UPPER_BOUND not in spending_line(spent[bound].numbers)
    assert "≤" not in spending_line(spent[exact].numbers)


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
