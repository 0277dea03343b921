"""The note of a trained reader, and its digests."""

import json

import pytest

pytest.importorskip("torch")

import torch
from tests.models.tiny import byte_level_tokenizer, tiny_module

from askance.core.errors import InputError
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.load import load_parts
from askance.models.local.encoding import chat_template_digest
from askance.models.local.model_files import ReaderNote, read_note, write_note

NOTE = ReaderNote(
    format=1,
    base="hf:tiny/ünal",
    base_fingerprint="0f" * 16,
    chat_template_digest="d2" * 16,
    method="full",
    prompts="plain",
)


def test_what_is_written_can_be_read_again(tmp_path):
    write_note(tmp_path, NOTE)
    assert read_note(tmp_path) == NOTE
    assert json.loads((tmp_path / "reader.json").read_text(encoding="utf-8")) == {
        "format": 1,
        "base": "hf:tiny/ünal",
        "base_fingerprint": "0f" * 16,
        "chat_template_digest": "d2" * 16,
        "method": "full",
        "prompts": "plain",
    }


def test_there_may_be_none(tmp_path):
    assert read_note(tmp_path) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"format": 2}, r"reader\.json, format: Input should be 1, found 2.*upgrade askance"),
        ({"format": None}, "format: Input should be 1, found None"),
        ({"bass": "bundled:base"}, "unknown key 'bass' in the note .*did you mean 'base'"),
        ({"base": "bundled"}, "reader.json, base: String should match.*found 'bundled'. Write it again"),
        ({"base": "hf:"}, "json, base: "),
        ({"base_fingerprint": "0F" * 16}, "json, base_fingerprint: "),
        ({"chat_template_digest": 3}, "json, chat_template_digest: .*found 3"),
        ({"prompts": ""}, "json, prompts: "),
        ({"method": "prefix"}, "json, method: Input should be 'lora' or 'full', found 'prefix'"),
    ],
)
def test_wrong_keys_and_values(tmp_path, change, expected):
    (tmp_path / "reader.json").write_text(json.dumps({"format": 1, **NOTE.model_dump(), **change}))
    with pytest.raises(InputError, match=expected):
        read_note(tmp_path)


@pytest.mark.parametrize("key", ["format", "method"])
def test_a_key_that_is_missing(tmp_path, key):
    (tmp_path / "reader.json").write_text(json.dumps(NOTE.model_dump(exclude={key})))
    with pytest.raises(InputError, match=rf"json, {key}: Field required\. Write it again"):
        read_note(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]", b""])
def test_what_is_no_note(tmp_path, content):
    (tmp_path / "reader.json").write_bytes(content)
    with pytest.raises(InputError, match=r"reader\.json, all of it: (Invalid JSON|Input should be an obj)"):
        read_note(tmp_path)


def test_the_fingerprint_depends_on_names_shapes_and_numbers():
    found = [
        weights_fingerprint(tiny_module("llama")),
        weights_fingerprint(tiny_module("llama", seed=1)),
        weights_fingerprint(tiny_module("llama", vocabulary=301)),
        weights_fingerprint(tiny_module("qwen2")),
        weights_fingerprint(tiny_module("llama", num_hidden_layers=1)),
    ]
    assert len({*found}) == len(found)
    assert weights_fingerprint(tiny_module("llama")) == found[0]


def test_one_layer_trained_a_little_is_another_model():
    module = tiny_module("llama")
    before = weights_fingerprint(module)
    with torch.no_grad():
        module.model.layers[1].mlp.up_proj.weight.mul_(1.001)
    assert weights_fingerprint(module) != before


def test_the_fingerprint_does_not_depend_on_the_precision_above_that_of_the_file(llama_folder, tmp_path):
    module, tokenizer = load_parts(str(llama_folder))
    of_file = weights_fingerprint(module)
    module.bfloat16().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    stored, finer = load_parts(str(tmp_path), dtype="stored")[0], load_parts(str(tmp_path))[0]
    assert (stored.dtype, finer.dtype) == (torch.bfloat16, torch.float32)
    assert weights_fingerprint(stored) == weights_fingerprint(finer)
    assert weights_fingerprint(stored) != of_file


def test_another_chat_template_has_another_digest():
    tokenizer = byte_level_tokenizer()
    found = {chat_template_digest(tokenizer)}
    for template in ("{{ messages }}", None, {"default": "{{ messages }}"}):
        tokenizer.chat_template = template
        found.add(chat_template_digest(tokenizer))
    assert len(found) == 4
