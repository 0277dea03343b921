"""Test that the abilities of a server are probed once and cached."""

import json
import shutil
from contextlib import contextmanager
from functools import partial

import pytest
from tests.models.protocol_server import NAMES, answers, protocol, serve
from tests.models.scripted_server import Fault, ScriptedServer
from tests.models.served import CHAT, KEY, event, write

from askance.configuration.build import load_model
from askance.core.errors import AskanceError, ModelFailure, ModelSpecError, ModelUnavailable, RequestRefused
from askance.core.notes import noted, shown_by
from askance.core.types import Want
from askance.models.openai.options import SERVERS

EVERYTHING = {"continuation": "1", "top_logprobs": "20", "top_k": "1", "neutral": "1", "running_usage": "1"}
PROBED = {
    "ollama-0.12.11": {"continuation": "1", "top_logprobs": "20", "context": "8192"},
    "ollama-0.5.7": {"continuation": "1", "context": "4096"},
    "vllm-0.11.0": {**SERVERS["vllm"], "context": "16384"},
    "vllm-0.6.6-max-logprobs-5": {**SERVERS["vllm"], "top_logprobs": "5", "context": "4096"},
    "sglang-0.5.3": {**SERVERS["sglang"], "context": "131072"},
    "lmstudio-0.3.30": {"completions": "1", "top_k": "1", "neutral": "1", "context": "4096"},
    "litellm-1.106.2": EVERYTHING,
    "llama.cpp-b6700": {**SERVERS["llama.cpp"], "context": "2048"},
    "llama-cpp-python-0.3.36": {**SERVERS["llama-cpp-python"], "top_logprobs": "20"},
    "hosted-strict": {"top_logprobs": "20", "completion_tokens": "1"},
}
PROBED = {name: {"thoughts": "none", **options} for name, options in PROBED.items()}
MAX_REQUESTS = {"vllm-0.6.6-max-logprobs-5": 12, "hosted-strict": 12} | dict.fromkeys(
    ("litellm-1.106.2", "lmstudio-0.3.30", "ollama-0.5.7"), 10
)
VLLM = protocol("vllm-0.11.0")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "servers"


def probe(server, model="tiny", options=""):
    """Load a model; return it, and the texts of the notes on the way."""
    notes = []
    with noted(lambda name, text: notes.append((name, text))):
        loaded = load_model(f"openai:{model}@{server.url}?attempts=1{options}")
    assert {name for name, _ in notes} <= {"probe"}
    return loaded, [text for _, text in notes]


def cached_options(cache):
    (path,) = cache.iterdir()
    return json.loads(path.read_text())["options"]


@pytest.mark.parametrize("name", NAMES)
def test_each_server_is_probed_once(name, cache, monkeypatch):
    imitated = protocol(name)
    monkeypatch.setenv("OPENAI_API_KEY", imitated.get("key", ""))
    with serve(name) as server:
        model, (note,) = probe(server, imitated["model"])
        assert cached_options(cache) == PROBED[name]
        assert len(server.requests) <= MAX_REQUESTS.get(name, 9)
        server.requests.clear()
        again, silence = probe(server, imitated["model"])
        assert {request.method for request in server.requests} <= {"GET"}, "only its identity is asked for"
        assert silence == []
    assert (model.signals, model.capabilities) == (again.signals, again.capabilities)
    assert model.context_tokens == again.context_tokens == int(PROBED[name].get("context", 32768))
    assert imitated["version"] in note
    assert f"window of {model.context_tokens:,} tokens" in note


def test_a_server_is_probed_again_on_demand_or_with_another_version(cache):
    is_raw = []
    newer = {**VLLM["responses"], "/version": {"version": "0.12.0"}}
    listed = {**VLLM["responses"]["/v1/models"]["data"][0], "max_model_len": 24576}
    larger = {**VLLM["responses"], "/v1/models": {"data": [listed]}}
    with serve("vllm-0.11.0") as server:

        def ask(options="", **changes):
            server.answers = answers("vllm-0.11.0", **changes)
            model, notes = probe(server, VLLM["model"], options)
            is_raw.append("raw" in model.capabilities)
            return model.context_tokens, notes

        assert ask("&server=auto&completions=0&context=512")[0] == 512, "explicit options take precedence"
        assert cached_options(cache)["completions"] == "1"
        assert ask(completions=None) == (16384, [])
        server.requests.clear()
        assert ask(completions=None, responses=larger) == (24576, []), "a window that changed is noticed"
        assert {request.method for request in server.requests} == {"GET"}
        assert "vllm 0.12.0" in ask(completions=None, responses=newer)[1][0]
        ask("&server=anew", completions=None)
        ask(completions=None)
    assert is_raw == [False, True, True, False, False, False]


@pytest.mark.parametrize("options", ["&chat=1", "&top_logprobs=5", *(f"&server={name}" for name in SERVERS)])
def test_a_declared_server_is_not_probed(cache, options):
    with ScriptedServer() as server:
        probe(server, options=options)
        assert server.requests == []
    assert not cache.exists()


def test_waiting_is_shown_and_a_server_that_has_changed_names_the_remedy():
    shown = []

    @contextmanager
    def shows(what, total):
        shown.append(what)
        yield lambda amount: None

    with ScriptedServer() as server:
        asking = f"asking the server at {server.url} what it is"
        probing = f"finding out what the server at {server.url} can do, by a few short requests"
        with shown_by(shows):
            probe(server)
            model, _ = probe(server)
        assert shown == [asking, probing, asking]
        server.withholds = {"logprobs"}
        with pytest.raises(ModelFailure, match=r"gave no log-probabilities: .*; \?server=anew after the"):
            write(model, CHAT, Want(logprob=True))
        assert "logprob" not in probe(server, options="&server=anew")[0].signals


def test_a_cache_that_is_damaged_or_can_not_be_written_is_no_failure(cache):
    invalid = '{"options": {"top_logprobs": "many"}}'
    with ScriptedServer() as server:
        for text in ("", "", "{", "[" * 100_000, "[]", "{}", '{"options": 1}', invalid, "\xff"):
            for path in cache.glob("*"):
                path.write_bytes(text.encode("latin-1"))
            assert len(probe(server)[1]) == 1, "the server is probed again"
            assert cached_options(cache)
        shutil.rmtree(cache)
        cache.write_text("a file in the place of the folder")
        assert "not kept: no cache can be written" in probe(server)[1][-1]


@pytest.mark.parametrize("name", ["ollama-0.12.11", "vllm-0.11.0", "litellm-1.106.2"])
def test_a_server_that_has_another_model(name, cache, monkeypatch):
    imitated = protocol(name)
    monkeypatch.setenv("OPENAI_API_KEY", imitated.get("key", ""))
    first = imitated["responses"]["/v1/models"]["data"][0]["id"]
    message = f"does not have it, but {first}.*: write openai:{first}@http://"
    with serve(name) as server, pytest.raises(ModelSpecError, match=message):
        probe(server, "nope")
    assert not cache.exists()


PAGE = "<html><body>Welcome to nginx</body></html>"
NO_TEMPERATURE = "Unsupported value: 'temperature' does not support 0.0 with this model."
DEEP_ERRORS = [
    begin * depth + "1" + end * depth
    for begin, end in (('{"error": ', "}"), ('{"error": [', "]}"), ('{"code": [', "]}"))
    for depth in (100, 900, 5000)
]


def answered(method, fault):
    return lambda request: fault if request.method == method or method is None else None


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (answered(None, Fault(401, body={"error": "no"})), ModelSpecError, "OPENAI_API_KEY to a key of this"),
        (answered(None, Fault(body=PAGE)), ModelSpecError, "gave a web page"),
        (answered(None, Fault(404, body=PAGE)), ModelSpecError, "URL ends as the server's own"),
        (answered(None, Fault(503, body={"error": "loading"})), ModelUnavailable, "answered 503: loading"),
        (answered(None, Fault(500, body="oops")), ModelUnavailable, "answered 500: oops"),
        (answered(None, Fault(body=[1] * 3)), AskanceError, "all of it is"),
        (answered(None, Fault(body="[" * 100_000)), AskanceError, "no JSON"),
        (answered("POST", Fault(400, body={"error": NO_TEMPERATURE})), RequestRefused, r"not support 0\.0"),
        *((answered("POST", Fault(400, body=deep)), RequestRefused, "answered 400") for deep in DEEP_ERRORS),
    ],
)
def test_servers_that_can_not_be_used(cache, answer, kind, message):
    with ScriptedServer() as server:
        server.answers = answer
        with pytest.raises(kind, match=message):
            probe(server)
    assert not cache.exists()
    with pytest.raises(ModelUnavailable, match=r"can't be reached.*check that it runs"):
        probe(server)


@pytest.mark.parametrize(
    "models",
    [
        [],
        {"data": None},
        {"data": [None, 3, {"id": 7, "owned_by": ["vllm"]}]},
        {"data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 10**400}]},
        {"data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": -5}]},
        {"data": [{"id": "x" * 10_000, "owned_by": "x" * 10_000}] * 3},
        {"data": [{"id": f"model {number}", "text": "x" * 100_000} for number in range(60)]},
    ],
)
def test_lists_of_models_that_are_invalid_are_ignored(models):
    with ScriptedServer() as server:
        server.answers = lambda request: Fault(body=models) if request.path == "/v1/models" else None
        model, _ = probe(server)
    assert "chat" in model.capabilities
    assert model.context_tokens == 32768


def test_a_server_that_takes_too_long_is_not_asked_once_more(cache, monkeypatch):
    monkeypatch.setattr("askance.models.openai.load._PROBE_SECONDS", 0.2)
    with ScriptedServer() as server:
        server.answers = answered("POST", Fault(seconds=5.0))
        message = r"did not show in 0\.2 seconds what it can do: .*server=NAME"
        with pytest.raises(ModelUnavailable, match=message):
            load_model(f"openai:tiny@{server.url}?attempts=4")
        assert [request.method for request in server.requests].count("POST") <= 1
    assert not cache.exists()


def test_what_a_server_says_about_itself_may_be_missing_or_hold_the_key(cache, monkeypatch):
    """The window of a model that is not loaded is kept."""
    for name, path in (("ollama-0.12.11", "/api/ps"), ("lmstudio-0.3.30", "/api/v0/models")):
        imitated = protocol(name)
        with serve(name) as server:
            before = probe(server, imitated["model"])[0].context_tokens
            server.answers = answers(name, responses={**imitated["responses"], path: {}})
            after = probe(server, imitated["model"])[0].context_tokens
        assert before == after == int(PROBED[name]["context"])
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve("vllm-0.11.0") as server:
        echo = {**VLLM["responses"], "/version": {"version": f"0.11 {KEY}"}}
        server.answers = answers("vllm-0.11.0", responses=echo)
        assert "vllm 0.11 [key]" in probe(server, VLLM["model"])[1][-1]
    assert all(KEY not in path.read_text() for path in cache.iterdir())


CHATS, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ABSENT = Fault(404, body={"error": {"message": "no such endpoint"}})
BROKEN = Fault(500, body={"error": {"message": "logprobs is not supported"}})


def lacks(path, request):
    return ABSENT if request.path == path else None


def scores_wrongly(request):
    prompt = request.body.get("prompt")
    logprobs = {"tokens": [prompt], "token_logprobs": [-9.0], "top_logprobs": None}
    return Fault(body=event(prompt, logprobs)) if request.body.get("echo") else lacks(CHATS, request)


def ignores_logprobs(paths, request):
    for name in ("logprobs", "top_logprobs"):
        request.body.pop(name if request.path in paths else "", None)


def thinks_first(request):
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}, "finish_reason": None}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    return lacks(COMPLETIONS, request) or Fault(events=[thought] * 3 + [end])


def breaks_at_logprobs(request):
    return BROKEN if request.body.get("logprobs") else None


def breaks_once():
    faults = [Fault(500, body="oops")]
    return lambda request: faults.pop() if faults and request.method == "POST" else None


ALL_SIGNALS = {"logprob", "top_logprobs", "entropy"}


@pytest.mark.parametrize(
    ("answer", "lacking", "signals"),
    [
        (lambda request: None, {"score"}, ALL_SIGNALS),
        (answered("GET", Fault(401, body={"error": "scope"})), {"score"}, ALL_SIGNALS),
        (answered("GET", Fault(403, body={"error": "scope"})), {"score"}, ALL_SIGNALS),
        (breaks_once(), {"score"}, ALL_SIGNALS),
        (partial(lacks, COMPLETIONS), {"score", "raw"}, ALL_SIGNALS),
        (partial(lacks, CHATS), {"chat"}, ALL_SIGNALS),
        (scores_wrongly, {"chat", "score"}, ALL_SIGNALS),
        # Of two endpoints, only the one with log-probabilities is declared.
        (partial(ignores_logprobs, {CHATS}), {"chat"}, ALL_SIGNALS),
        (partial(ignores_logprobs, {COMPLETIONS}), {"score", "raw"}, ALL_SIGNALS),
        (partial(ignores_logprobs, {CHATS, COMPLETIONS}), {"score"}, set()),
        (breaks_at_logprobs, {"score"}, set()),
        (thinks_first, {"score", "raw", "continuation"}, set()),
    ],
)
def test_an_unknown_server_is_known_by_what_it_does_alone(answer, lacking, signals):
    with ScriptedServer() as server:
        server.answers = answer
        model, notes = probe(server)
    assert model.capabilities == {"raw", "chat", "continuation", "score"} - lacking
    assert model.signals == signals
    assert "of an unknown kind" in notes[-1]
    assert ("score" in notes[-1]) != ("score" in lacking)
