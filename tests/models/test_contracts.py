"""Test that all adapters of the `Model` port fulfil the same contract."""

import pytest
from tests.contracts.model_contract import ModelContract
from tests.models.scripted_server import ScriptedServer

from askance.configuration.build import load_model
from askance.core.types import Chat, Raw, Span, Turn
from askance.models.scripted import ScriptedModel


class TestScripted(ModelContract):
    precision = ""
    control_strings = ("<|end|>",)

    @pytest.fixture
    def model(self):
        return ScriptedModel()


class TestScriptedWithControlTokens(ModelContract):
    precision = ""
    control_strings = ("<|end|>", "[No Retrieval]", "<paragraph>", "</paragraph>")

    @pytest.fixture
    def model(self):
        return ScriptedModel(control=self.control_strings[1:])


class TestTinyLlama(ModelContract):
    control_strings = ("<s>", "</s>", "[INST]", "<unk>")

    @pytest.fixture
    def model(self, llama):
        return llama


class TestTinyQwen(ModelContract):
    control_strings = ("<|im_start|>", "<|endoftext|>", "<think>")

    @pytest.fixture
    def model(self, qwen):
        return qwen


class TestBundled(ModelContract):
    """The bundled model with few of its layers; `llama/test_llama_contract.py` tests the whole model."""

    control_strings = ("<|im_start|>", "<|im_end|>")
    prompt = Raw((Span("The three largest cities of Germany are"),))
    max_tokens = 8
    operation = "thirty layers"

    @pytest.fixture
    def model(self, few_layers):
        return few_layers


@pytest.fixture(scope="module")
def server():
    with ScriptedServer() as server:
        yield server


class OverAServer(ModelContract):
    """A contract for models on a server, which do not forward attention."""

    precision = ""
    counts_exactly = False
    options = ""

    @pytest.fixture
    def model(self, server):
        return load_model(f"openai:scripted@{server.url}{self.options}")


class TestServerLikeVllm(OverAServer):
    signals = frozenset({"logprob", "top_logprobs", "entropy"})
    capabilities = frozenset({"raw", "chat", "continuation"})
    counts_exactly = True
    options = "?server=vllm"


class TestServerOfCompletions(OverAServer):
    signals = TestServerLikeVllm.signals
    capabilities = frozenset({"raw", "continuation", "score"})
    options = "?chat=0&completions=1&score=1&top_logprobs=5"


class OfChat(OverAServer):
    prompt = Chat((Turn("user", OverAServer.prompt.parts),))


class TestServerThatTellsLogprobs(OfChat):
    signals = frozenset({"logprob"})
    capabilities = frozenset({"chat", "continuation"})
    options = "?continuation=1&logprobs=1"


class TestServerOfChatAndTextsAlone(OfChat):
    signals = frozenset()
    capabilities = frozenset({"chat"})
    options = "?chat=1"
