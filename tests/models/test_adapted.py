"""Test specifications with an adapter: the base, the precision and the name of the model."""

import shutil

import pytest

pytest.importorskip("torch")

import torch
from tests.models.test_hf_load import edit
from tests.models.tiny import save_adapter, save_tiny, sentencepiece_tokenizer

from askance.configuration.build import load_model
from askance.core.errors import InputError, ModelSpecError
from askance.models.hf.adapter import load_adapted, merge, open_adapter
from askance.models.hf.load import load_parts


@pytest.fixture(scope="module")
def made(llama_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapter")
    return save_adapter(folder, str(llama_folder), base_spec=f"hf:{llama_folder}")


@pytest.fixture
def adapter(made, tmp_path):
    """Return a copy of the adapter for tests that change it."""
    return shutil.copytree(made, tmp_path / "adapter")


def weights(model):
    return dict(model._backend.module.named_parameters())


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def merged_by_hand(folder, base):
    return dict(merge(open_adapter(folder), *load_parts(str(base)), "base").named_parameters())


def test_a_folder_with_an_adapter_brings_its_base(adapter, llama_folder):
    model = load_model(f"hf:{adapter}")
    assert model.name == str(adapter)
    assert model.context_tokens == 512
    assert same(weights(model), merged_by_hand(adapter, llama_folder))
    assert not any(weight.requires_grad for weight in weights(model).values())
    assert "attention" in model.signals


def test_the_base_can_be_named(adapter, llama_folder):
    model = load_model(f"hf:{llama_folder}?dtype=float32&adapter={adapter}")
    assert model.name == f"{llama_folder}?adapter={adapter}"
    assert same(weights(model), merged_by_hand(adapter, llama_folder))


def test_a_path_is_taken_to_the_letter(adapter, llama_folder):
    odd = adapter.rename(adapter.with_name("a+b%20?=c"))
    assert load_model(f"hf:{llama_folder}?adapter={odd}").name.endswith("a+b%20?=c")


def test_without_a_note_the_base_is_what_peft_wrote_down(adapter, llama_folder):
    (adapter / "reader.json").unlink()
    edit(adapter / "adapter_config.json", base_model_name_or_path=str(llama_folder))
    assert same(weights(load_model(f"hf:{adapter}")), merged_by_hand(adapter, llama_folder))


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (None, "does not say which base it is for"),
        ("/nowhere/llama", "the base 'hf:/nowhere/llama' of adapter .* can't be used.*does not exist"),
    ],
)
def test_a_base_that_can_not_be_found(adapter, declared, expected):
    (adapter / "reader.json").unlink()
    edit(adapter / "adapter_config.json", base_model_name_or_path=declared)
    with pytest.raises(ModelSpecError, match=rf"{expected}.* Name its base: hf:NAME\?adapter="):
        load_model(f"hf:{adapter}")


def test_another_base_is_refused_by_both_names(adapter, tmp_path):
    other = save_tiny(tmp_path / "other", "llama", sentencepiece_tokenizer(), num_key_value_heads=4, seed=9)
    with pytest.raises(ModelSpecError, match=f"trained on 'hf:.*llama.*not on 'hf:{other}'"):
        load_model(f"hf:{other}?adapter={adapter}")


def test_an_adapter_is_no_base(adapter):
    with pytest.raises(ModelSpecError, match="holds an adapter, where a model that stands by itself"):
        load_model(f"hf:{adapter}?adapter={adapter}")


def test_what_is_no_adapter(llama_folder, tmp_path):
    for folder in (llama_folder, tmp_path / "absent"):
        with pytest.raises(InputError, match=r"no adapter_config\.json"):
            load_model(f"hf:{llama_folder}?adapter={folder}")


def test_rounding_comes_last(adapter, llama_folder):
    """A base in float32 files is recognised and merged in float32, regardless of the requested precision."""
    exact = merged_by_hand(adapter, llama_folder)
    rounded = weights(load_adapted(str(adapter), dtype="bfloat16", display_name="x"))
    assert same(rounded, {name: weight.bfloat16() for name, weight in exact.items()})
    assert same(weights(load_adapted(str(adapter), dtype="stored", display_name="x")), exact)


def test_a_base_in_half_precision_files(llama_folder, tmp_path):
    base = tmp_path / "base"
    module, tokenizer = load_parts(str(llama_folder))
    module.bfloat16().save_pretrained(base)
    tokenizer.save_pretrained(base)
    adapter = save_adapter(tmp_path / "adapter", str(base), base_spec=f"hf:{base}")
    assert same(weights(load_model(f"hf:{adapter}?dtype=float32")), merged_by_hand(adapter, base))
    assert load_model(f"hf:{adapter}?dtype=bfloat16")._backend.module.dtype == torch.bfloat16
