"""Real servers on loopback: the contract of models, the check, and the methods that run on them.

llama.cpp's server and `askance serve` always start. vLLM and LiteLLM start if the variables VLLM and LITELLM
name their executables, as in `make test-extra`.
"""

import asyncio
import json
import os
import socket
import subprocess
import time
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from benchmarks.servers import serve, serve_llama
from tests.contracts.model_contract import ModelContract
from tests.models.served import write
from tests.tolerances import near, tolerance

from askance import open_engine
from askance.configuration.build import check_model, load_model
from askance.core.errors import InputError, PromptTooLong
from askance.core.types import Chat, Raw, Span, Turn, Want
from askance.models.openai.options import SERVERS
from askance.models.openai.streaming import min_entropy

CITIES = Raw((Span("The three largest cities of Germany are"),))
WINDOW = 2048
QUESTION = "Where did the scriptwriter of The Third Man die?"
SIGNALS = frozenset({"logprob", "top_logprobs", "entropy"})
SHORT = {"max_tokens": 16}
METHODS = {"single": SHORT, "flare": SHORT, "dragin": SHORT, "selfrag": {**SHORT, "passages": 1}}
METHODS |= {None: SHORT, "airrag": {**SHORT, "most_iterations": 1}}
"""Methods with parameters that keep them short; None is the one that is chosen."""


def executable(variable):
    """Return the executable of a server, or skip the test."""
    if not os.environ.get(variable):
        pytest.skip(f"the variable {variable} names no executable")
    return os.environ[variable]


@contextmanager
def started(*command, **environment):
    """Start a server, given a command that ends before its port, and yield its base URL when it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, str(port)], env={**os.environ, **environment}, **silent) as process:
        try:
            while True:
                assert process.poll() is None, "the server did not start"
                try:
                    urlopen(f"{url}/models").close()
                    break
                except URLError:
                    time.sleep(0.5)
            yield url
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def llama_cpp(bundled_gguf):
    with serve_llama(bundled_gguf, 2) as server:
        yield f"{server.url}/v1"


@pytest.fixture(scope="session")
def llama_cpp_with_few_layers(few_layers_gguf):
    with serve_llama(few_layers_gguf, 2) as server:
        yield f"{server.url}/v1"


@pytest.fixture(scope="session")
def askance_serve(sample_index):
    with serve("--model", "bundled:base", "--index", str(sample_index)) as served:
        yield f"{served.url}/v1"


@pytest.fixture(scope="session")
def litellm(llama_cpp, tmp_path_factory):
    command = executable("LITELLM")
    config = tmp_path_factory.mktemp("litellm") / "config.yaml"
    target = {"model": "openai/smollm2", "api_base": llama_cpp, "api_key": "none"}
    config.write_text(json.dumps({"model_list": [{"model_name": "smollm2", "litellm_params": target}]}))
    options = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    with started(command, "--config", str(config), "--host", "127.0.0.1", "--port", **options) as url:
        yield url


@pytest.fixture(scope="session")
def vllm():
    command = executable("VLLM")
    from askance.models.hf.adapter import torch_folder

    words = ("--served-model-name", "smollm2", "--dtype", "float32", "--max-model-len", str(WINDOW))
    words += ("--max-logprobs", "20", "--enforce-eager", "--host", "127.0.0.1", "--port")
    options = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with started(command, "serve", str(torch_folder()), *words, **options) as url:
        yield url


@pytest.fixture(scope="class")
def spec(request):
    server = request.getfixturevalue(request.cls.server)
    return f"openai:{request.cls.name}@{server}{request.cls.options}"


@pytest.fixture(scope="class")
def model(spec, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASKANCE_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load_model(spec)


class Methods:
    """Questions to methods that use a model on a server.

    Attributes:
        server, name, options: The fixture with the server's URL, and what the model's specification names.
        best: The method that answers if none is named.
        refused: Methods that do not run, with the error.
    """

    server, name, options = "", "smollm2", ""
    best, refused = "flare", {}

    @pytest.mark.parametrize(("method", "parameters"), METHODS.items(), ids=str)
    def test_a_method_answers_or_says_what_is_missing(
        self, model, method, parameters, bundled_gguf, sample_index
    ):
        models = {"answer": model, **({"attend": bundled_gguf} if method == "dragin" else {})}
        engine = {"index": sample_index, "models": models, "method": method, "parameters": parameters}

        def ask():
            return open_engine(**engine).ask(QUESTION)

        if method == "airrag" and self.best == "draft_agreement":
            pytest.skip("needs samples")
        if method in self.refused:
            error, words = self.refused[method]
            with pytest.raises(error, match=words):
                ask()
            return
        result = ask()
        assert result.trace.events[0].title.startswith(method or self.best)
        assert result.answer.text


class OverServer(ModelContract):
    """The contract and the check of a model on a server."""

    precision = ""
    prompt = CITIES
    max_tokens = 8
    operation, number_format = "thirty layers", "8 bits"
    signals, capabilities = SIGNALS, frozenset({"raw", "chat", "continuation"})
    server, name, options = "", "smollm2", ""

    def test_the_check_confirms_what_is_declared(self, spec, monkeypatch, tmp_path):
        monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path))
        report = asyncio.run(check_model(spec))
        assert [finding for finding in report.findings if finding.is_declared and not finding.works] == []


class TestLlamaCpp(OverServer):
    server = "llama_cpp"

    def test_what_is_detected(self, spec, monkeypatch, tmp_path):
        monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path))
        load_model(spec)
        (kept,) = (tmp_path / "servers").iterdir()
        found = json.loads(kept.read_text(encoding="utf-8"))["options"]
        assert found == SERVERS["llama.cpp"] | {"context": str(WINDOW), "thoughts": "none"}

    @pytest.mark.parametrize("prompt", [CITIES, ModelContract.chat], ids=["text", "chat"])
    def test_signals_are_those_of_the_same_file_without_a_server(self, model, bundled_gguf, prompt):
        want, bound = Want(logprob=True, top_logprobs=3, entropy=True), (self.operation, self.number_format)
        (here,), (there,) = (write(each, prompt, want, max_tokens=6) for each in (model, bundled_gguf))
        assert [token.text for token in here.tokens] == [token.text for token in there.tokens]
        slack = tolerance(*reversed(bound))
        for ours, theirs in zip(here.tokens, there.tokens, strict=True):
            assert ours.logprob == near(theirs.logprob, *bound)
            assert ours.top[0][0] == theirs.top[0][0]
            assert ours.entropy <= theirs.entropy + slack, "a bound from below"
            assert ours.entropy >= min_entropy([logprob for _, logprob in ours.top], 3) - slack

    @pytest.mark.parametrize("make", [lambda text: Raw((text,)), lambda text: Chat((Turn("user", (text,)),))])
    def test_a_text_beyond_its_window(self, model, make):
        with pytest.raises(PromptTooLong, match=rf"exceeds the available context size \({WINDOW} tokens"):
            write(model, make(Span("one two " * WINDOW)))


class TestMethodsWithLlamaCpp(Methods):
    """They read a thousand tokens for each text, so the server has a model with few layers."""

    server = "llama_cpp_with_few_layers"


class TestVllm(Methods, OverServer):
    server = "vllm"


class TestVllmScores(OverServer):
    server, options = "vllm", f"?chat=0&completions=1&score=1&top_logprobs=20&context={WINDOW}"
    capabilities = frozenset({"raw", "continuation", "score"})
    counts_exactly = False


class OverChat(OverServer):
    prompt = Chat((Turn("user", CITIES.parts),))
    counts_exactly = False


class TestLitellm(Methods, OverChat):
    """LiteLLM in front of llama.cpp's server."""

    server = "litellm"
    prompt = Chat((Turn("user", (Span("Repeat: one two three four five six."),)),))
    capabilities = frozenset({"chat", "continuation"})


class TestAskanceServe(Methods, OverChat):
    """A method on a server answers, and decides by itself how it samples."""

    server, name = "askance_serve", "askance/closed_book"
    signals, capabilities = frozenset(), frozenset({"chat"})
    best = "draft_agreement"
    refused = dict.fromkeys(("flare", "dragin", "selfrag"), (InputError, "needs logprob"))
    test_a_key_decides_a_sample = test_tokens_join_to_the_text = None
    test_concurrent_calls_equal_sequential_ones = None
    test_samples_of_one_call_are_independent_and_only_the_first_is_watched = None
