"""Test that the abilities of a server are probed once and cached."""

import json
from contextlib import contextmanager

import pytest
from tests.models.protocol_server import NAMES, answers, protocol, serve
from tests.models.scripted_server import Fault, ScriptedServer
from tests.models.served import CHAT, KEY, event, write

from askance.configuration.build import load_model
from askance.core.errors import AskanceError, ModelFailure, ModelSpecError, ModelUnavailable, RequestRefused
from askance.core.notes import noted, shown_by
from askance.core.types import Want
from askance.models.openai.options import SERVERS
from askance.models.scripted import ScriptedModel

FOUND = {
    "ollama-0.12.11": {"continuation": "1", "top_logprobs": "20", "context": "8192"},
    "ollama-0.5.7": {"continuation": "1", "context": "4096"},
    "vllm-0.11.0": {**SERVERS["vllm"], "context": "16384"},
    "vllm-0.6.6-max-logprobs-5": {**SERVERS["vllm"], "top_logprobs": "5", "context": "4096"},
    "sglang-0.5.3": {**SERVERS["sglang"], "context": "131072"},
    "lmstudio-0.3.30": {"completions": "1", "top_k": "1", "neutral": "1", "context": "4096"},
    "litellm-1.106.2": {
        "continuation": "1",
        "top_logprobs": "20",
        "top_k": "1",
        "neutral": "1",
        "running_usage": "1",
    },
    "llama.cpp-b6700": {**SERVERS["llama.cpp"], "context": "2048"},
    "llama-cpp-python-0.3.36": {**SERVERS["llama-cpp-python"], "top_logprobs": "20"},
    "hosted-strict": {"top_logprobs": "20", "completion_tokens": "1"},
}
MOST_REQUESTS = {
    "vllm-0.6.6-max-logprobs-5": 12, "hosted-strict": 12, "litellm-1.106.2": 10, "lmstudio-0.3.30": 10,
    "ollama-0.5.7": 10,
}  # fmt: skip


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "servers"


def ask_about(server, model="tiny", options=""):
    notes = []
    with noted(lambda name, text: notes.append((name, text))):
        loaded = load_model(f"openai:{model}@{server.url}?attempts=1{options}")
    return loaded, notes


def kept_options(cache):
    (path,) = cache.iterdir()
    return json.loads(path.read_text())["options"]


@pytest.mark.parametrize("name", NAMES)
def test_what_each_server_can_do_is_found_out(name, cache, monkeypatch):
    server_protocol = protocol(name)
    monkeypatch.setenv("OPENAI_API_KEY", server_protocol.get("key", ""))
    with serve(name) as server:
        model, notes = ask_about(server, server_protocol["model"])
        assert kept_options(cache) == FOUND[name]
        assert len(server.requests) <= MOST_REQUESTS.get(name, 9), [
            request.path for request in server.requests
        ]
        server.requests.clear()
        again, silence = ask_about(server, server_protocol["model"])
        assert all(request.method == "GET" for request in server.requests), "who it is, and nothing else"
        assert silence == []
    assert (model.signals, model.capabilities) == (again.signals, again.capabilities)
    assert model.context_tokens == again.context_tokens == int(FOUND[name].get("context", 32768))
    ((kind, note),) = notes
    assert kind == "probe"
    assert server_protocol["version"] in note
    assert f"window of {model.context_tokens:,} tokens" in note


def test_every_protocol_has_its_expectation():
    assert set(NAMES) == set(FOUND)


def test_another_version_is_asked_anew(cache):
    server_protocol = protocol("vllm-0.11.0")
    with serve("vllm-0.11.0") as server:
        ask_about(server, server_protocol["model"])
        newer = {**server_protocol["responses"], "/version": {"version": "0.12.0"}}
        server.answers = answers("vllm-0.11.0", responses=newer, completions=None)
        model, notes = ask_about(server, server_protocol["model"])
    assert "raw" not in model.capabilities
    assert "vllm 0.12.0" in notes[-1][1]


def test_a_server_that_has_changed_since_names_what_to_do(cache):
    with ScriptedServer() as server:
        model, _ = ask_about(server)
        server.withholds = {"logprobs"}
        with pytest.raises(
            ModelFailure,
            match=r"gave no log-probabilities: .*; \?server=anew after the model",
        ):
            write(model, CHAT, Want(logprob=True))
        assert "logprob" not in ask_about(server, options="&server=anew")[0].signals


def test_it_is_asked_anew_on_demand(cache):
    server_protocol = protocol("vllm-0.11.0")
    with serve("vllm-0.11.0") as server:
        assert "raw" in ask_about(server, server_protocol["model"])[0].capabilities
        server.answers = answers("vllm-0.11.0", completions=None)
        assert "raw" in ask_about(server, server_protocol["model"])[0].capabilities
        assert "raw" not in ask_about(server, server_protocol["model"], "&server=anew")[0].capabilities
        assert "raw" not in ask_about(server, server_protocol["model"])[0].capabilities, "that is kept"


def test_options_that_are_given_count_more(cache):
    server_protocol = protocol("vllm-0.11.0")
    with serve("vllm-0.11.0") as server:
        model, _ = ask_about(server, server_protocol["model"], "&server=auto&completions=0&context=512")
    assert "raw" not in model.capabilities
    assert "continuation" in model.capabilities
    assert model.context_tokens == 512
    assert kept_options(cache)["completions"] == "1"


@pytest.mark.parametrize("options", ["&chat=1", "&top_logprobs=5", *(f"&server={name}" for name in SERVERS)])
def test_what_is_declared_is_not_asked(cache, options):
    with ScriptedServer() as server:
        ask_about(server, options=options)
        assert server.requests == []
    assert not cache.exists()


def test_a_cache_that_can_not_be_written_is_no_failure(cache):
    cache.parent.mkdir()
    cache.write_text("a file in the place of the folder")
    with ScriptedServer() as server:
        model, notes = ask_about(server)
    assert "chat" in model.capabilities
    assert "not kept: no cache can be written" in notes[-1][1]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, "[]", "{}", '{"options": 1}', '{"options": {"top_logprobs": "many"}}', "\xff"],
)
def test_a_damaged_file_of_the_cache_is_as_none(cache, text):
    with ScriptedServer() as server:
        ask_about(server)
        (path,) = cache.iterdir()
        path.write_bytes(text.encode("latin-1"))
        assert len(ask_about(server)[1]) == 1, "the server is probed again"
        assert kept_options(cache)


@pytest.mark.parametrize("name", ["ollama-0.12.11", "vllm-0.11.0", "litellm-1.106.2"])
def test_a_server_that_has_another_model(name, cache, monkeypatch):
    server_protocol = protocol(name)
    monkeypatch.setenv("OPENAI_API_KEY", server_protocol.get("key", ""))
    first = server_protocol["responses"]["/v1/models"]["data"][0]["id"]
    with serve(name) as server, pytest.raises(ModelSpecError) as raised:
        ask_about(server, "nope")
    assert f"does not have it, but {first}" in str(raised.value)
    assert f"write openai:{first}@{server.url}." in str(raised.value)
    assert not cache.exists()


PAGE = "<html><body>Welcome to nginx</body></html>"


@pytest.mark.parametrize(
    ("fault", "error", "expected"),
    [
        (
            Fault(401, body={"error": {"message": "no"}}),
            ModelSpecError,
            "Set OPENAI_API_KEY to a key of this",
        ),
        (Fault(body=PAGE), ModelSpecError, "gave a web page"),
        (Fault(404, body=PAGE), ModelSpecError, "URL ends as the server's own"),
        (Fault(503, body={"error": "loading"}), ModelUnavailable, "answered 503: loading"),
        (Fault(500, body="oops"), ModelUnavailable, "answered 500: oops"),
        (Fault(400, body={"error": "no such thing"}), RequestRefused, "answered 400: no such thing"),
        (Fault(body=[1] * 3), AskanceError, "all of it is"),
        (Fault(body="[" * 100_000), AskanceError, "no JSON"),
    ],
)
def test_servers_that_can_not_be_used(cache, fault, error, expected):
    with ScriptedServer() as server:
        server.answers = lambda request: fault
        with pytest.raises(error, match=expected):
            ask_about(server)
    assert not cache.exists()


def test_nobody_there(cache):
    with ScriptedServer() as server:
        pass
    with pytest.raises(ModelUnavailable, match=r"can't be reached.*check that it runs"):
        ask_about(server)


def test_a_refused_temperature_is_said_before_the_run(cache):
    refusal = {"error": {"message": "Unsupported value: 'temperature' does not support 0.0 with this model."}}
    with ScriptedServer() as server:
        server.answers = lambda request: Fault(400, body=refusal) if request.method == "POST" else None
        with pytest.raises(RequestRefused, match=r"'temperature' does not support 0\.0"):
            ask_about(server)


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
def test_lists_of_models_that_are_none(cache, models):
    with ScriptedServer(ScriptedModel()) as server:
        server.answers = lambda request: Fault(body=models) if request.path == "/v1/models" else None
        model, _ = ask_about(server)
    assert "chat" in model.capabilities
    assert model.context_tokens == 32768


def test_a_server_that_takes_too_long_is_not_asked_once_more(cache, monkeypatch):
    monkeypatch.setattr("askance.models.openai.load._PROBE_SECONDS", 0.2)
    with ScriptedServer() as server:
        server.answers = lambda request: Fault(seconds=5.0) if request.method == "POST" else None
        with pytest.raises(
            ModelUnavailable, match=r"did not show in 0\.2 seconds what it can do: .*server=NAME"
        ):
            load_model(f"openai:tiny@{server.url}?attempts=4")
        assert [request.method for request in server.requests].count("POST") <= 1
    assert not cache.exists()


def test_what_is_waited_for_is_said(cache):
    shown = []

    @contextmanager
    def shows(what, total):
        shown.append(what)
        yield lambda amount: None

    with ScriptedServer() as server, shown_by(shows):
        asking = [f"asking the server at {server.url} what it is"]
        finding = [f"finding out what the server at {server.url} can do, by a few short requests"]
        ask_about(server)
        assert shown == asking + finding
        ask_about(server)
        assert shown == asking + finding + asking


def test_a_window_that_has_changed_is_noticed(cache):
    server_protocol = protocol("vllm-0.11.0")
    (listed,) = server_protocol["responses"]["/v1/models"]["data"]
    with serve("vllm-0.11.0") as server:
        assert ask_about(server, server_protocol["model"])[0].context_tokens == 16384
        larger = {"data": [{**listed, "max_model_len": 24576}]}
        server.answers = answers(
            "vllm-0.11.0", responses={**server_protocol["responses"], "/v1/models": larger}
        )
        server.requests.clear()
        assert ask_about(server, server_protocol["model"])[0].context_tokens == 24576
        assert all(request.method == "GET" for request in server.requests)


@pytest.mark.parametrize(
    ("name", "path", "models"),
    [("ollama-0.12.11", "/api/ps", "models"), ("lmstudio-0.3.30", "/api/v0/models", "data")],
)
def test_a_window_is_kept_while_the_model_is_not_loaded(name, path, models, cache):
    server_protocol = protocol(name)
    with serve(name) as server:
        assert ask_about(server, server_protocol["model"])[0].context_tokens == int(FOUND[name]["context"])
        server.answers = answers(name, responses={**server_protocol["responses"], path: {models: []}})
        assert ask_about(server, server_protocol["model"])[0].context_tokens == int(FOUND[name]["context"])


def test_what_a_server_says_of_itself_shows_no_key(cache, monkeypatch):
    server_protocol = protocol("vllm-0.11.0")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve("vllm-0.11.0") as server:
        echo = {**server_protocol["responses"], "/version": {"version": f"0.11 {KEY}"}}
        server.answers = answers("vllm-0.11.0", responses=echo)
        _, notes = ask_about(server, server_protocol["model"])
    assert "vllm 0.11 [key]" in notes[-1][1]
    assert all(KEY not in path.read_text() for path in cache.iterdir())


@pytest.mark.parametrize("depth", [100, 900, 5000])
@pytest.mark.parametrize(
    ("begin", "end"), [('{"error": ', "}"), ('{"error": [', "]}"), ('{"code": [', "]}")], ids=str
)
def test_an_error_that_is_nested_deeply(cache, begin, end, depth):
    refused = Fault(400, body=begin * depth + "1" + end * depth)
    with ScriptedServer() as server:
        server.answers = lambda request: refused if request.method == "POST" else None
        with pytest.raises(RequestRefused, match="answered 400"):
            ask_about(server)


CHAT_PATH, RAW_PATH = "/v1/chat/completions", "/v1/completions"
ABSENT = Fault(404, body={"error": {"message": "no such endpoint"}})
SCORES = {"logprob", "top_logprobs", "entropy"}


def lacks_chats(request):
    return ABSENT if request.path == CHAT_PATH else None


def scores_wrongly(request):
    logprobs = {"tokens": [request.body.get("prompt")], "token_logprobs": [-9.0], "top_logprobs": None}
    echo = Fault(body=event(request.body["prompt"], logprobs)) if request.body.get("echo") else None
    return lacks_chats(request) or echo


def ignores_logprobs_at(*paths):
    def answer(request):
        if request.path in paths:
            for name in ("logprobs", "top_logprobs"):
                request.body.pop(name, None)

    return answer


def breaks_at_logprobs(request):
    broken = Fault(500, body={"error": {"message": "logprobs is not supported"}})
    return broken if request.body.get("logprobs") else None


def refuses_lists(status):
    refused = Fault(status, body={"error": {"message": "missing scope: model.read"}})
    return lambda request: refused if request.method == "GET" else None


def thinks_first(request):
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}, "finish_reason": None}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    return Fault(events=[thought] * 3 + [end]) if request.path == CHAT_PATH else ABSENT


class BreaksOnce:
    def __init__(self):
        self.num_posts = 0

    def __call__(self, request):
        self.num_posts += request.method == "POST"
        return Fault(500, body="oops") if self.num_posts == 1 else None


@pytest.mark.parametrize(
    ("answer", "capabilities", "signals"),
    [
        (lambda request: None, {"raw", "chat", "continuation"}, SCORES),
        (refuses_lists(401), {"raw", "chat", "continuation"}, SCORES),
        (refuses_lists(403), {"raw", "chat", "continuation"}, SCORES),
        (BreaksOnce(), {"raw", "chat", "continuation"}, SCORES),
        (lambda request: ABSENT if request.path == RAW_PATH else None, {"chat", "continuation"}, SCORES),
        (lacks_chats, {"raw", "continuation", "score"}, SCORES),
        (scores_wrongly, {"raw", "continuation"}, SCORES),
        # Of two endpoints, only the one with log-probabilities is declared.
        (ignores_logprobs_at(CHAT_PATH), {"raw", "continuation", "score"}, SCORES),
        (ignores_logprobs_at(RAW_PATH), {"chat", "continuation"}, SCORES),
        (ignores_logprobs_at(CHAT_PATH, RAW_PATH), {"raw", "chat", "continuation"}, set()),
        (breaks_at_logprobs, {"raw", "chat", "continuation"}, set()),
        (thinks_first, {"chat"}, set()),
    ],
)
def test_an_unknown_server_is_known_by_what_it_does_alone(cache, answer, capabilities, signals):
    with ScriptedServer() as server:
        server.answers = answer
        model, notes = ask_about(server)
    assert (model.capabilities, model.signals) == (capabilities, signals)
    assert "of an unknown kind" in notes[-1][1]
    assert ("score" in notes[-1][1]) == ("score" in capabilities)
