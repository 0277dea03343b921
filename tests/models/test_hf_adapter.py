"""Adapters: merging changes no logit, and an adapter for another base is refused."""

import json
import re
import shutil
import sys

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file, save_file
from tests.models.test_hf_load import edit
from tests.models.tiny import byte_level_tokenizer, save_adapter, save_tiny
from tests.tolerances import assert_near

from askance.core.errors import MissingExtra, ModelSpecError
from askance.core.installing import install_line
from askance.models.hf.adapter import holds_adapter, merge, open_adapter
from askance.models.hf.load import load_parts
from askance.models.hf.noise import quiet
from askance.models.local.model_files import adapter_fingerprint

IDS = torch.tensor([[1, 30, 45, 60, 200, 17, 99]])


@pytest.fixture(scope="module")
def made(llama_folder, tmp_path_factory):
    return save_adapter(tmp_path_factory.mktemp("adapter"), str(llama_folder), base_spec="hf:tiny-llama")


@pytest.fixture
def adapter(made, tmp_path):
    """Return a copy of an adapter, to be damaged."""
    return shutil.copytree(made, tmp_path / "adapter")


@pytest.fixture
def foreign(adapter):
    """Return an adapter of another trainer, without a note."""
    (adapter / "reader.json").unlink()
    return adapter


def merged(adapter, base, name="hf:base"):
    return merge(open_adapter(adapter), *load_parts(str(base)), name)


def logits(module):
    with torch.inference_mode():
        return module.eval()(IDS).logits


@pytest.mark.parametrize("name", ["llama", "qwen"])
@pytest.mark.parametrize("settings", [{}, {"use_dora": True}, {"use_rslora": True, "bias": "lora_only"}])
def test_merging_changes_no_logit(name, settings, request, tmp_path):
    from peft import PeftModel

    base = request.getfixturevalue(f"{name}_folder")
    folder = save_adapter(tmp_path, str(base), base_spec="hf:base", **settings)
    plain = load_parts(str(base))[0]
    before = logits(plain)
    with quiet():
        expected = logits(PeftModel.from_pretrained(plain, folder))
    module = merged(folder, base)
    assert (expected - before).abs().max() > 0.1
    assert_near(logits(module), expected, "two layers")
    assert type(module) is type(load_parts(str(base))[0])
    assert not [key for key in module.state_dict() if "lora" in key]


def test_what_it_was_trained_on(adapter):
    assert holds_adapter(adapter)
    assert open_adapter(adapter).base == "hf:tiny-llama"
    (adapter / "reader.json").unlink()
    edit(adapter / "adapter_config.json", base_model_name_or_path="owner/base")
    assert open_adapter(adapter).base == "hf:owner/base"
    edit(adapter / "adapter_config.json", base_model_name_or_path=None)
    assert open_adapter(adapter).base is None


def test_another_base_of_the_same_shapes_is_refused(adapter, llama_folder, tmp_path):
    other = shutil.copytree(llama_folder, tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    weights["model.norm.weight"] += 0.5
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelSpecError, match=r"was trained on 'hf:tiny-llama' \(.*not on 'hf:other'"):
        merged(adapter, other, "hf:other")


def test_another_chat_template_is_refused(adapter, llama_folder):
    module, tokenizer = load_parts(str(llama_folder))
    tokenizer.chat_template += " "
    with pytest.raises(ModelSpecError, match=r"'hf:tiny-llama' \(chat template .*not on 'hf:here'"):
        merge(open_adapter(adapter), module, tokenizer, "hf:here")


@pytest.mark.parametrize(
    ("model_type", "settings", "expected"),
    [
        ("llama", {"hidden_size": 64}, "size mismatch for"),
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4}, "q_proj"),
        ("llama", {"num_hidden_layers": 1}, "no place for the adapter's weights, such as .*layers.1"),
        ("llama", {"num_hidden_layers": 3}, "more places than the adapter's weights, such as .*layers.2"),
    ],
)
def test_one_without_a_note_has_to_fit_by_names_and_shapes(foreign, tmp_path, model_type, settings, expected):
    edit(foreign / "adapter_config.json", base_model_name_or_path="owner/llama")
    if model_type == "llama":
        settings = {"num_key_value_heads": 4, **settings}
    other = save_tiny(tmp_path / "other", model_type, byte_level_tokenizer(), **settings)
    told = "made for 'hf:owner/llama' and does not fit 'hf:other'"
    with pytest.raises(ModelSpecError, match=rf"{told}: (?s:.*){expected}(?s:.*)hf:NAME\?adapter="):
        merged(foreign, other, "hf:other")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(adapter, value):
    path = adapter / "adapter_model.safetensors"
    weights = load_file(path)
    name = max(weights)
    weights[name].view(-1)[-1] = value
    save_file(weights, path)
    with pytest.raises(ModelSpecError, match=f"not finite numbers, first in {name}: its training failed"):
        open_adapter(adapter)


def test_an_extension_that_panics_over_an_adapter(adapter, llama_folder, monkeypatch):
    class Panic(BaseException):
        pass

    def panics(folder, module):
        raise Panic("index out of range")

    monkeypatch.setattr("askance.models.hf.adapter._merged", panics)
    with pytest.raises(ModelSpecError, match=r"does not fit .*an extension panicked \(Panic: index out of"):
        merged(adapter, llama_folder)


def test_a_truncated_file(adapter):
    path = adapter / "adapter_model.safetensors"
    for length in (path.stat().st_size - 8, 40, 0):
        path.write_bytes(path.read_bytes()[:length])
        with pytest.raises(ModelSpecError, match=r"a damaged adapter_model\.safetensors.*[Ff]etch"):
            open_adapter(adapter)


def test_missing_and_broken_files(adapter):
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(ModelSpecError, match=r"has no adapter_model\.safetensors"):
        open_adapter(adapter)
    for content in ("{", "[]"):
        (adapter / "adapter_config.json").write_text(content)
        with pytest.raises(ModelSpecError, match=r"adapter_config\.json that can't be read"):
            open_adapter(adapter)
    (adapter / "adapter_config.json").unlink()
    assert not holds_adapter(adapter)
    with pytest.raises(ModelSpecError, match=r"has no adapter_config\.json: name the folder"):
        open_adapter(adapter)


@pytest.mark.parametrize("settings", [{"peft_type": "MAGIC"}, {"r": 0}, {"r": 4}, {"r": "many"}])
def test_settings_that_fit_nothing(adapter, llama_folder, settings):
    edit(adapter / "adapter_config.json", **settings)
    with pytest.raises(ModelSpecError, match="does not fit 'hf:base'"):
        merged(adapter, llama_folder)


def test_an_adapter_of_the_prompt_is_refused(tmp_path, llama_folder):
    from peft import PrefixTuningConfig, get_peft_model

    settings = PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    with quiet():
        get_peft_model(load_parts(str(llama_folder))[0], settings).save_pretrained(tmp_path)
    with pytest.raises(ModelSpecError, match="of the type PREFIX_TUNING, which can't be added to weights"):
        merged(tmp_path, llama_folder)


def test_embeddings_that_serve_as_output_too_can_not_be_merged(tmp_path):
    base = save_tiny(tmp_path / "base", "llama", byte_level_tokenizer(), tie_word_embeddings=True)
    folder = save_adapter(tmp_path / "adapter", str(base), target_modules=["q_proj", "embed_tokens"])
    with pytest.raises(ModelSpecError, match=r"changes model\.embed_tokens, whose weights its base uses"):
        merged(folder, base)


def test_a_missing_package_is_named(adapter, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    expected = f"needs the package 'peft', which is not installed: {install_line('local')}"
    with pytest.raises(MissingExtra, match=re.escape(expected)):
        open_adapter(adapter)


def test_the_identity_of_an_adapter_is_that_of_weights_and_settings(adapter):
    found = {adapter_fingerprint(adapter)}
    (adapter / "README.md").write_text("A card.")
    assert adapter_fingerprint(adapter) in found
    settings = json.loads((adapter / "adapter_config.json").read_text())
    edit(adapter / "adapter_config.json", lora_alpha=settings["lora_alpha"] + 1)
    found.add(adapter_fingerprint(adapter))
    path = adapter / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x3c")
    found.add(adapter_fingerprint(adapter))
    assert len(found) == 3
    path.unlink()
    with pytest.raises(ModelSpecError, match=r"can't read adapter_model\.safetensors: No such file"):
        adapter_fingerprint(adapter)


def test_a_pattern_means_the_modules_that_it_matches(foreign, llama_folder):
    """The pattern is of the form that trainers write."""
    expected = logits(merged(foreign, llama_folder))
    names = "|".join(json.loads((foreign / "adapter_config.json").read_text())["target_modules"])
    pattern = (
        rf"(?:.*?(?:language|text|layers).*?(?:self_attn|mlp).*?(?:{names}).*?)"
        rf"|(?:\bmodel\.layers\.[\d]{{1,}}\.(?:self_attn|mlp)\.(?:(?:{names})))"
    )
    edit(foreign / "adapter_config.json", target_modules=pattern)
    assert torch.equal(logits(merged(foreign, llama_folder)), expected)


@pytest.mark.parametrize("field", ["target_modules", "exclude_modules"])
def test_a_pattern_that_a_backtracking_engine_never_ends_is_matched(foreign, llama_folder, field):
    edit(foreign / "adapter_config.json", **{field: r"(([a-z0-9_.]+)+)+!"})
    if field == "exclude_modules":
        merged(foreign, llama_folder)
        return
    with pytest.raises(ModelSpecError, match="does not fit 'hf:base'"):
        merged(foreign, llama_folder)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"target_modules": r"(.*)\1q_proj"}, "can't be matched in linear time"),
        ({"target_modules": "q_proj("}, "can't be matched in linear time"),
        ({"target_modules": "(a{1000}){1000}"}, "can't be matched in linear time"),
        ({"rank_pattern": {"(a+)+!": 8}}, "a group, or more than one repetition"),
        ({"alpha_pattern": {".*.*.*.*!": 8}}, "a group, or more than one repetition"),
        ({"modules_to_save": ["(a+)+!"]}, "a group, or more than one repetition"),
        (
            {"layers_pattern": "(a+)+", "layers_to_transform": [0], "target_modules": ["q_proj"]},
            "a group, or more than one repetition",
        ),
    ],
)
def test_patterns_that_are_not_used(foreign, llama_folder, settings, why):
    edit(foreign / "adapter_config.json", **settings)
    with pytest.raises(ModelSpecError, match=f"is not used, since .*{why}: write a list of names of modules"):
        merged(foreign, llama_folder)
