"""Test adapters by torch: merging equals PEFT, the base and the precision, and what is refused."""

import json
import re
import shutil
import sys

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file, save_file
from tests.models.test_hf_load import edit
from tests.models.tiny import byte_level_tokenizer, save_adapter, save_tiny, sentencepiece_tokenizer
from tests.tolerances import assert_near

from askance.configuration.build import load_model
from askance.core.errors import InputError, MissingExtra, ModelSpecError
from askance.core.installing import install_line
from askance.models.hf.adapter import holds_adapter, load_adapted, merge, open_adapter
from askance.models.hf.load import load_parts
from askance.models.hf.noise import quiet
from askance.models.local.model_files import adapter_fingerprint

IDS = torch.tensor([[1, 30, 45, 60, 200, 17, 99]])
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@pytest.fixture(scope="module")
def saved(llama_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapter")
    return save_adapter(folder, str(llama_folder), base_spec=f"hf:{llama_folder}")


@pytest.fixture
def adapter(saved, tmp_path):
    """Return a copy of an adapter, to be changed."""
    return shutil.copytree(saved, tmp_path / "adapter")


@pytest.fixture
def foreign(adapter):
    """Return an adapter of another trainer, without a note."""
    (adapter / "reader.json").unlink()
    return adapter


def merged(adapter, base, name="hf:base"):
    return merge(open_adapter(adapter), *load_parts(str(base)), name)


def weights(model):
    return dict(model._backend.module.named_parameters())


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def expected_weights(folder, base):
    return dict(merged(folder, base).named_parameters())


def logits(module):
    with torch.inference_mode():
        return module.eval()(IDS).logits


@pytest.mark.parametrize("name", ["llama", "qwen"])
@pytest.mark.parametrize("settings", [{}, {"use_dora": True}, {"use_rslora": True, "bias": "lora_only"}])
def test_merging_gives_the_logits_of_peft(name, settings, request, tmp_path):
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


def test_the_base_is_that_of_the_note_or_of_peft_or_is_named(adapter, llama_folder):
    expected = expected_weights(adapter, llama_folder)
    model = load_model(f"hf:{adapter}")
    assert (model.name, model.context_tokens, "attention" in model.signals) == (str(adapter), 512, True)
    assert not any(weight.requires_grad for weight in weights(model).values())
    named = load_model(f"hf:{llama_folder}?dtype=float32&adapter={adapter}")
    assert named.name == f"{llama_folder}?adapter={adapter}"
    (adapter / "reader.json").unlink()
    edit(adapter / CONFIG, base_model_name_or_path=str(llama_folder))
    by_peft = load_model(f"hf:{adapter}")
    odd = adapter.rename(adapter.with_name("a+b%20?=c"))
    verbatim = load_model(f"hf:{llama_folder}?adapter={odd}")
    assert verbatim.name.endswith("a+b%20?=c")
    assert all(equal(weights(each), expected) for each in (model, named, by_peft, verbatim))
    edit(odd / CONFIG, base_model_name_or_path=None)
    assert open_adapter(odd).base is None


def test_rounding_comes_last(adapter, llama_folder, tmp_path):
    """A base in float32 files is recognised and merged in float32, regardless of the requested precision."""
    exact = expected_weights(adapter, llama_folder)
    rounded = weights(load_adapted(str(adapter), dtype="bfloat16", display_name="x"))
    assert equal(rounded, {name: weight.bfloat16() for name, weight in exact.items()})
    assert equal(weights(load_adapted(str(adapter), dtype="stored", display_name="x")), exact)
    base = tmp_path / "half"
    module, tokenizer = load_parts(str(llama_folder))
    module.bfloat16().save_pretrained(base)
    tokenizer.save_pretrained(base)
    half = save_adapter(tmp_path / "for_half", str(base), base_spec=f"hf:{base}")
    assert equal(weights(load_model(f"hf:{half}?dtype=float32")), expected_weights(half, base))
    assert load_model(f"hf:{half}?dtype=bfloat16")._backend.module.dtype == torch.bfloat16


def test_an_adapter_for_another_base_is_refused(adapter, llama_folder, tmp_path):
    seed = save_tiny(tmp_path / "seed", "llama", sentencepiece_tokenizer(), num_key_value_heads=4, seed=9)
    with pytest.raises(ModelSpecError, match=f"trained on 'hf:.*llama.*not on 'hf:{seed}'"):
        load_model(f"hf:{seed}?adapter={adapter}")
    module, tokenizer = load_parts(str(llama_folder))
    module.model.norm.weight.data += 0.5
    with pytest.raises(ModelSpecError, match=r"was trained on 'hf:.*llama.*' \(.*not on 'hf:other'"):
        merge(open_adapter(adapter), module, tokenizer, "hf:other")
    module, tokenizer = load_parts(str(llama_folder))
    tokenizer.chat_template += " "
    with pytest.raises(ModelSpecError, match=r"llama.*' \(chat template .*not on 'hf:here'"):
        merge(open_adapter(adapter), module, tokenizer, "hf:here")


@pytest.mark.parametrize(
    ("model_type", "settings", "message"),
    [
        ("llama", {"hidden_size": 64}, "size mismatch for"),
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4}, "q_proj"),
        ("llama", {"num_hidden_layers": 1}, "no place for the adapter's weights, such as .*layers.1"),
        ("llama", {"num_hidden_layers": 3}, "more places than the adapter's weights, such as .*layers.2"),
    ],
)
def test_without_a_note_names_and_shapes_have_to_fit(foreign, tmp_path, model_type, settings, message):
    edit(foreign / CONFIG, base_model_name_or_path="owner/llama")
    settings = {"num_key_value_heads": 4, **settings} if model_type == "llama" else settings
    other = save_tiny(tmp_path / "other", model_type, byte_level_tokenizer(), **settings)
    told = "made for 'hf:owner/llama' and does not fit 'hf:other'"
    with pytest.raises(ModelSpecError, match=rf"{told}: (?s:.*){message}(?s:.*)hf:NAME\?adapter="):
        merged(foreign, other, "hf:other")


def not_finite(value):
    def damage(folder):
        tensors = load_file(folder / WEIGHTS)
        tensors[max(tensors)].view(-1)[-1] = value
        save_file(tensors, folder / WEIGHTS)

    return damage


def truncate(length):
    def damage(folder):
        content = (folder / WEIGHTS).read_bytes()
        (folder / WEIGHTS).write_bytes(content[:length])

    return damage


def config(**fields):
    return lambda folder: edit(folder / CONFIG, **fields)


DAMAGED = r"a damaged adapter_model\.safetensors.*[Ff]etch"
IN_LINEAR_TIME = "is not used, since .*can't be matched in linear time: write a list of names of modules"
REPETITIONS = "is not used, since .*a group, or more than one repetition: write a list of names of modules"
SLOW = r"(([a-z0-9_.]+)+)+!"
"""A pattern that a backtracking engine never finishes."""


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (not_finite(float("nan")), r"not finite numbers, first in base_model\S+: its training failed"),
        (not_finite(float("inf")), r"not finite numbers, first in base_model\S+: its training failed"),
        (truncate(-8), DAMAGED),
        (truncate(40), DAMAGED),
        (truncate(0), DAMAGED),
        (lambda folder: (folder / WEIGHTS).rename(folder / "model.bin"), r"has no adapter_model\.saf"),
        (lambda folder: (folder / CONFIG).write_text("{"), r"adapter_config\.json that can't be read"),
        (lambda folder: (folder / CONFIG).write_text("[]"), r"adapter_config\.json that can't be read"),
        (lambda folder: (folder / CONFIG).unlink(), r"has no adapter_config\.json: name the folder"),
        *((config(**bad), "does not fit 'hf:base'") for bad in ({"peft_type": "MAGIC"}, {"r": 0}, {"r": 4})),
        (config(r="many"), "does not fit 'hf:base'"),
        (config(target_modules=SLOW), "does not fit 'hf:base'"),
        (config(target_modules=r"(.*)\1q_proj"), IN_LINEAR_TIME),
        (config(target_modules="q_proj("), IN_LINEAR_TIME),
        (config(target_modules="(a{1000}){1000}"), IN_LINEAR_TIME),
        (config(rank_pattern={"(a+)+!": 8}), REPETITIONS),
        (config(alpha_pattern={".*.*.*.*!": 8}), REPETITIONS),
        (config(modules_to_save=["(a+)+!"]), REPETITIONS),
        (
            config(layers_pattern="(a+)+", layers_to_transform=[0], target_modules=["q_proj"]),
            REPETITIONS,
        ),
    ],
)
def test_adapters_that_can_not_be_used(foreign, llama_folder, damage, message):
    damage(foreign)
    assert holds_adapter(foreign) == (foreign / CONFIG).exists()
    with pytest.raises(ModelSpecError, match=message):
        merged(foreign, llama_folder)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (None, "does not say which base it is for"),
        ("/nowhere/llama", "the base 'hf:/nowhere/llama' of adapter .* can't be used.*does not exist"),
    ],
)
def test_a_base_that_can_not_be_found(foreign, declared, message):
    edit(foreign / CONFIG, base_model_name_or_path=declared)
    with pytest.raises(ModelSpecError, match=rf"{message}.* Name its base: hf:NAME\?adapter="):
        load_model(f"hf:{foreign}")


def test_folders_that_hold_a_model_instead_of_an_adapter_or_the_reverse(adapter, llama_folder, tmp_path):
    with pytest.raises(ModelSpecError, match="holds an adapter, where a model that stands by itself"):
        load_model(f"hf:{adapter}?adapter={adapter}")
    for folder in (llama_folder, tmp_path / "absent"):
        with pytest.raises(InputError, match=r"no adapter_config\.json"):
            load_model(f"hf:{llama_folder}?adapter={folder}")


def test_adapters_that_can_not_be_merged(tmp_path, llama_folder, adapter, monkeypatch):
    from peft import PrefixTuningConfig, get_peft_model

    settings = PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    with quiet():
        get_peft_model(load_parts(str(llama_folder))[0], settings).save_pretrained(tmp_path)
    with pytest.raises(ModelSpecError, match="of the type PREFIX_TUNING, which can't be added to weights"):
        merged(tmp_path, llama_folder)
    base = save_tiny(tmp_path / "base", "llama", byte_level_tokenizer(), tie_word_embeddings=True)
    tied = save_adapter(tmp_path / "tied", str(base), target_modules=["q_proj", "embed_tokens"])
    with pytest.raises(ModelSpecError, match=r"changes model\.embed_tokens, whose weights its base uses"):
        merged(tied, base)

    class Panic(BaseException):
        pass

    def panics(folder, module):
        raise Panic("index out of range")

    monkeypatch.setattr("askance.models.hf.adapter._merged", panics)
    with pytest.raises(ModelSpecError, match=r"does not fit .*an extension panicked \(Panic: index out of"):
        merged(adapter, llama_folder)
    monkeypatch.setitem(sys.modules, "peft", None)
    expected = f"needs the package 'peft', which is not installed: {install_line('local')}"
    with pytest.raises(MissingExtra, match=re.escape(expected)):
        open_adapter(adapter)


def test_the_fingerprint_of_an_adapter_is_that_of_weights_and_settings(adapter):
    before = adapter_fingerprint(adapter)
    (adapter / "README.md").write_text("A card.")
    assert adapter_fingerprint(adapter) == before
    edit(adapter / CONFIG, lora_alpha=json.loads((adapter / CONFIG).read_text())["lora_alpha"] + 1)
    other_settings = adapter_fingerprint(adapter)
    path = adapter / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1] + b"\x3c")
    assert len({before, other_settings, adapter_fingerprint(adapter)}) == 3
    path.unlink()
    with pytest.raises(ModelSpecError, match=r"can't read adapter_model\.safetensors: No such file"):
        adapter_fingerprint(adapter)


def test_a_pattern_selects_the_modules_that_it_matches(foreign, llama_folder):
    """The pattern has the form that trainers write."""
    expected = logits(merged(foreign, llama_folder))
    names = "|".join(json.loads((foreign / CONFIG).read_text())["target_modules"])
    pattern = (
        rf"(?:.*?(?:language|text|layers).*?(?:self_attn|mlp).*?(?:{names}).*?)"
        rf"|(?:\bmodel\.layers\.[\d]{{1,}}\.(?:self_attn|mlp)\.(?:(?:{names})))"
    )
    edit(foreign / CONFIG, target_modules=pattern, exclude_modules=SLOW)
    assert torch.equal(logits(merged(foreign, llama_folder)), expected)
