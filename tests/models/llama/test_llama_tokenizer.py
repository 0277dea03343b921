"""The tokenizer of a GGUF file encodes and decodes like the original one of transformers."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.tiny import CHATML_TEMPLATE, hostile_alphabet

from askance.core.errors import InputError
from askance.core.types import Chat, Raw, Span, Turn, untrusted
from askance.inference.vocabulary import IncrementalDetokenizer
from askance.models.llama_cpp.tokenizer import GgufTokenizer
from askance.models.llama_cpp.weights import Weights

TEXTS = (
    "The cat sat on the river bank.",
    "two  spaces\n\nand lines\n",
    "Zürich, 中文, 😀 and e\u0301",
    "count 1234 to 3!",
)
both = pytest.mark.parametrize("name", ["llama", "qwen"])


@both
@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_those_of_transformers(gguf_files, gguf_models, name, text):
    model, tokenizer = gguf_models[name], gguf_files[name][2]
    whole = model._vocabulary.encode(text, at_start=True).ids
    assert whole == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert model._vocabulary.decode(whole) == tokenizer.decode(whole)
    assert list(model.pieces(tuple(whole))) == tokenizer.convert_ids_to_tokens(whole)


@both
def test_what_counts_as_control_is_what_counts_elsewhere(gguf_files, gguf_models, name):
    model, tokenizer = gguf_models[name], gguf_files[name][2]
    added = {
        id: token.content for id, token in tokenizer.added_tokens_decoder.items() if token.content.strip()
    }
    special = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    assert model._vocabulary.control == added | special
    assert tokenizer.eos_token_id in model._vocabulary.end_ids


@both
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_untrusted_text_is_text(gguf_models, name, data):
    model = gguf_models[name]
    control = sorted(model._vocabulary.control.values())
    pieces = st.sampled_from(hostile_alphabet(control)) | st.text(max_size=3)
    text = "".join(data.draw(st.lists(pieces, max_size=8)))
    try:
        ids = model.tokenize(text)
    except InputError:
        return
    assert not {*ids} & model._vocabulary.unambiguous_ids


@both
def test_chats_are_laid_out_as_by_transformers(gguf_files, gguf_models, name):
    model, tokenizer = gguf_models[name], gguf_files[name][2]
    turns = [("user", "Who?"), ("assistant", "I."), ("user", " Why? ")]
    expected = tokenizer.apply_chat_template(
        [{"role": role, "content": text} for role, text in turns], tokenize=False, add_generation_prompt=True
    )
    chat = Chat(tuple(Turn(role, (untrusted(text),)) for role, text in turns))
    found = model._vocabulary.decode(model._encoding.encode(chat))
    assert found.split() == expected.split()


def test_a_template_that_refuses(gguf_models):
    chat = Chat((Turn("assistant", (Span("I."),)), Turn("system", (Span("Be."),))))
    with pytest.raises(InputError, match="refuses these turns"):
        asyncio.run(gguf_models["llama"].count(chat))


def test_the_template_of_the_file(gguf_files):
    assert GgufTokenizer(Weights(gguf_files["qwen"][0])).chat_template == CHATML_TEMPLATE


@both
def test_a_character_that_is_spread_over_several_tokens(gguf_models, name):
    model = gguf_models[name]
    text = "a 😀 中 b"
    ids = model.tokenize(text)
    assert len(ids) > len(text)
    detokeniser = IncrementalDetokenizer(model._vocabulary, model.tokenize("x"))
    parts = [detokeniser.add(id) for id in ids]
    assert "".join(parts) + detokeniser.flush() == text
    assert all("\ufffd" not in part for part in parts)


def test_bos_stands_in_front_where_the_file_says_so(gguf_models):
    bos = gguf_models["llama"].tokenize([Span("<s>")])
    ids = {name: model._encoding.encode(Raw((Span("The cat"),))) for name, model in gguf_models.items()}
    assert ids["llama"][:1] == bos
    assert ids["llama"].count(bos[0]) == 1
    assert ids["qwen"] == gguf_models["qwen"].tokenize("The cat")
