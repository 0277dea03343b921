"""The tokenizer of a GGUF file encodes and decodes like the original one of transformers."""

import asyncio

import pytest
from tests.models.tiny import CHATML_TEMPLATE

from askance.core.errors import InputError
from askance.core.types import Chat, Raw, Span, Turn, untrusted

TEXTS = (
    "The cat sat on the river bank.",
    "two  spaces\n\nand lines\n",
    "Zürich, 中文, 😀 and e\u0301",
    "count 1234 to 3!",
)
both = pytest.mark.parametrize("name", ["llama", "qwen"])


@both
def test_ids_control_tokens_and_chats_are_those_of_transformers(gguf_files, gguf_models, name):
    model, tokenizer = gguf_models[name], gguf_files[name][2]
    vocabulary = model._vocabulary
    for text in TEXTS:
        ids = vocabulary.encode(text, at_start=True).ids
        assert ids == tokenizer(text, add_special_tokens=False)["input_ids"]
        assert vocabulary.decode(ids) == tokenizer.decode(ids)
        assert list(model._encoding.encode(Raw((Span(text),)))) == tokenizer(text)["input_ids"]
        assert list(model.pieces(tuple(ids))) == tokenizer.convert_ids_to_tokens(ids)
    added = {
        id: token.content for id, token in tokenizer.added_tokens_decoder.items() if token.content.strip()
    }
    special = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    assert vocabulary.control == added | special
    assert tokenizer.eos_token_id in vocabulary.end_ids
    turns = [("user", "Who?"), ("assistant", "I."), ("user", " Why? ")]
    expected = tokenizer.apply_chat_template(
        [{"role": role, "content": text} for role, text in turns], tokenize=False, add_generation_prompt=True
    )
    chat = Chat(tuple(Turn(role, (untrusted(text),)) for role, text in turns))
    assert vocabulary.decode(model._encoding.encode(chat)).split() == expected.split()


def test_the_template_of_the_file_may_refuse(gguf_models):
    assert gguf_models["qwen"]._vocabulary.tokenizer.chat_template == CHATML_TEMPLATE
    chat = Chat((Turn("assistant", (Span("I."),)), Turn("system", (Span("Be."),))))
    with pytest.raises(InputError, match="refuses these turns"):
        asyncio.run(gguf_models["llama"].count(chat))
