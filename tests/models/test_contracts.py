"""All adapters of the `Model` port keep the same promises."""

import pytest
from tests.contracts.model_contract import ModelContract

from askance.core.types import Raw, Span
from askance.models.scripted import ScriptedModel


class TestScripted(ModelContract):
    control_strings = ("<|end|>",)

    @pytest.fixture
    def model(self):
        return ScriptedModel()


class TestScriptedWithControlTokens(ModelContract):
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
    control_strings = ("<|im_start|>", "<|im_end|>")
    prompt = Raw((Span("The three largest cities of Germany are"),))
    max_tokens = 8
    tolerance = 1e-3

    @pytest.fixture
    def model(self, bundled):
        return bundled
