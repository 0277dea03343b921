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
from askance.models.local.model_files import NOTE, ReaderNote, read_note

FIELDS = {
    "format": 1,
    "base": "hf:tiny/ünal",
    "base_fingerprint": "0f" * 16,
    "chat_template_digest": "d2" * 16,
    "method": "full",
    "prompts": "plain",
}


def test_a_note_is_read(tmp_path):
    assert read_note(tmp_path) is None
    (tmp_path / NOTE).write_text(json.dumps(FIELDS), encoding="utf-8")
    assert read_note(tmp_path) == ReaderNote(**FIELDS)


def changed(**fields):
    return json.dumps(FIELDS | fields).encode()


def without(key):
    return json.dumps({name: value for name, value in FIELDS.items() if name != key}).encode()


NO_NOTE = r"reader\.json: (Invalid JSON|Input should be an obj)"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        *((content, NO_NOTE) for content in (b"{", b"\xff", b"[]", b"")),
        (changed(format=2), r"reader\.json, field format: Input should be 1, found 2.*upgrade askance"),
        (changed(format=None), "format: Input should be 1, found None"),
        (
            changed(bass="bundled:base"),
            r"reader\.json, field bass: Extra inputs are not permitted, found 'bund",
        ),
        (changed(base="bundled"), "json, field base: String should match.*found 'bundled'. Write it again"),
        (changed(base="hf:"), "json, field base: "),
        (changed(base_fingerprint="0F" * 16), "json, field base_fingerprint: "),
        (changed(chat_template_digest=3), "json, field chat_template_digest: .*found 3"),
        (changed(prompts=""), "json, field prompts: "),
        (changed(method="prefix"), "json, field method: Input should be 'lora' or 'full', found 'prefix'"),
        (without("format"), r"json, field format: Field required\. Write it again"),
        (without("method"), r"json, field method: Field required\. Write it again"),
    ],
)
def test_what_is_no_note(tmp_path, content, told):
    (tmp_path / "reader.json").write_bytes(content)
    with pytest.raises(InputError, match=told):
        read_note(tmp_path)


def test_the_fingerprint_depends_on_names_shapes_and_numbers_in_the_precision_of_the_file(tmp_path):
    trained = tiny_module("llama")
    with torch.no_grad():
        trained.model.layers[1].mlp.up_proj.weight.mul_(1.001)
    kinds = {"vocabulary": 301}, {"num_hidden_layers": 1}, {}
    modules = [*(tiny_module("llama", **settings) for settings in kinds), tiny_module("qwen2"), trained]
    assert len({*map(weights_fingerprint, modules)}) == 5
    assert weights_fingerprint(tiny_module("llama")) == weights_fingerprint(modules[2])
    tokenizer = byte_level_tokenizer()
    modules[2].bfloat16().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    stored, finer = load_parts(str(tmp_path), dtype="stored")[0], load_parts(str(tmp_path))[0]
    assert (stored.dtype, finer.dtype) == (torch.bfloat16, torch.float32)
    assert weights_fingerprint(stored) == weights_fingerprint(finer) != weights_fingerprint(trained)


def test_another_chat_template_has_another_digest():
    tokenizer = byte_level_tokenizer()
    found = {chat_template_digest(tokenizer)}
    for template in ("{{ messages }}", None, {"default": "{{ messages }}"}):
        tokenizer.chat_template = template
        found.add(chat_template_digest(tokenizer))
    assert len(found) == 4
