"""GGUF models keep the promises of all models: both families of tokenizers, and the whole bundled model."""

import asyncio

import pytest
from tests.contracts.model_contract import ModelContract, run
from tests.models.llama.calls import ENTROPY, write

from askance.core.types import Raw, Span


class OfFile(ModelContract):
    number_format, operation = "float16", "read twice"
    precision = "weights as stored, KV cache float16"


class TestTinyLlama(OfFile):
    control_strings = ("<s>", "</s>", "[INST]", "<unk>")

    @pytest.fixture
    def model(self, gguf_models):
        return gguf_models["llama"]


class TestTinyQwen(OfFile):
    control_strings = ("<|im_start|>", "<|endoftext|>", "<think>")

    @pytest.fixture
    def model(self, gguf_models):
        return gguf_models["qwen"]


class TestBundledByLlamaCpp(OfFile):
    control_strings = ("<|im_start|>", "<|im_end|>")
    prompt = Raw((Span("The three largest cities of Germany are"),))
    max_tokens = 8
    number_format = "8 bits"

    @pytest.fixture
    def model(self, bundled_gguf):
        return bundled_gguf

    def test_in_any_company_numbers_are_equal_to_the_bit(self, model):
        prompts = [range(1000 + number * 977, 1040 + number * 986) for number in range(4)]

        async def numbers(prompt):
            generation = await write(model, prompt, want=ENTROPY)
            return [(token.id, token.entropy) for token in generation.tokens + generation.dropped]

        async def alone(prompt):
            await model.clear_cache()
            return await numbers(prompt)

        async def together():
            await model.clear_cache()
            return await asyncio.gather(*map(numbers, prompts))

        assert run(together()) == [run(alone(prompt)) for prompt in prompts]
