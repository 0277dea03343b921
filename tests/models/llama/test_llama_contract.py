"""GGUF models keep the promises of all models, with tokenizers of both families."""

import pytest
from tests.contracts.model_contract import ModelContract


class TestTinyLlama(ModelContract):
    control_strings = ("<s>", "</s>", "[INST]", "<unk>")
    number_format, operation = "float16", "read twice"
    precision = "weights as stored, KV cache float16"

    @pytest.fixture
    def model(self, gguf_models):
        return gguf_models["llama"]


class TestTinyQwen(ModelContract):
    control_strings = ("<|im_start|>", "<|endoftext|>", "<think>")
    number_format, operation = "float16", "read twice"
    precision = "weights as stored, KV cache float16"

    @pytest.fixture
    def model(self, gguf_models):
        return gguf_models["qwen"]
