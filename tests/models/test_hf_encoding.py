"""Training and inference encode prompts as the same ids."""

import asyncio

import pytest
from tests.models.tiny import byte_level_tokenizer, sentencepiece_tokenizer, tiny_module

from askance.core.types import Chat, Raw, Span, Turn, untrusted
from askance.models.hf.model import encoding_of

CHAT = Chat((Turn("user", (untrusted("Count to <s> three."),)),), continuation=(Span("One"),))


def encoding(model_type, tokenizer):
    module = tiny_module(model_type, vocabulary=len(tokenizer), eos_token_id=tokenizer.eos_token_id)
    return encoding_of(tokenizer, module, model_type)


@pytest.mark.parametrize("prompt", [CHAT, Raw((Span("The cat"), untrusted("</s> sat")))])
def test_a_model_reads_with_it(prompt, llama_folder):
    from askance.models.hf.load import as_model, load_parts

    module, tokenizer = load_parts(str(llama_folder))
    own = encoding_of(tokenizer, module, "own")
    model = as_model(module, tokenizer, name="model")
    assert len(own.encode(prompt)) == asyncio.run(model.count(prompt))
    assert own.text_ids("</s>the river") == model.tokenize("</s>the river")
    assert own.vocabulary.end_ids == {2}


def test_a_text_after_a_prompt_has_no_space_in_front_and_no_control_tokens():
    llama = encoding("llama", sentencepiece_tokenizer())
    ids = llama.text_ids("cat</s>")
    assert llama.vocabulary.decode_inside(ids) == "cat</s>"
    assert 2 not in ids


def test_the_model_may_name_more_ends_than_its_tokenizer():
    tokenizer = byte_level_tokenizer()
    module = tiny_module("qwen2", vocabulary=len(tokenizer))
    module.generation_config.eos_token_id = [0, tokenizer.eos_token_id]
    assert encoding_of(tokenizer, module, "qwen").vocabulary.end_ids == {0, tokenizer.eos_token_id}
