"""Loading: refusals and their messages, and no other output."""

import json
import logging
import shutil
import subprocess
import sys

import gguf
import pytest

pytest.importorskip("torch")

import torch
from huggingface_hub import constants
from tests.models.tiny import make_tokenizer_panic, save_tiny_gguf, tiny_module

from askance.core.errors import ModelSpecError, ParameterError
from askance.core.installing import install_line
from askance.models.hf import load_hf
from askance.models.hf.load import load_parts


@pytest.fixture
def copy(llama_folder, tmp_path):
    """Return a copy of a good model, to be damaged."""
    return shutil.copytree(llama_folder, tmp_path / "model")


def edit(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_folder(llama_folder):
    model = load_hf(str(llama_folder))
    assert model.name == str(llama_folder)
    assert model.context_tokens == 512
    assert model._backend.module.dtype == torch.float32
    assert not model._backend.module.training
    assert not any(weight.requires_grad for weight in model._backend.module.parameters())


def test_parts_can_be_trained(llama_folder):
    module, tokenizer = load_parts(str(llama_folder))
    assert module.dtype == torch.float32
    assert all(weight.requires_grad for weight in module.parameters())
    assert tokenizer.eos_token == "</s>"


def test_another_precision(llama_folder):
    model = load_hf(str(llama_folder), device="cpu", dtype="bfloat16")
    assert model._backend.module.dtype == torch.bfloat16
    assert model.precision == "bfloat16"


@pytest.mark.parametrize("name", ["/nowhere/model", "./nowhere", "~/nowhere", "nowhere.gguf"])
def test_what_does_not_exist(name):
    with pytest.raises(ModelSpecError, match="does not exist"):
        load_hf(name)


def cut_off(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])


def declares(architecture):
    return lambda folder: edit(folder / "config.json", architectures=[architecture])


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"no config\.json"),
        (cut_off, "may be damaged"),
        (lambda folder: (folder / "config.json").write_text("{"), "may be damaged"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "may be damaged"),
        (make_tokenizer_panic, r"an extension panicked \(PanicException.*may be damaged"),
        # Transformers would fill in missing weights at random.
        (
            lambda folder: edit(folder / "config.json", num_hidden_layers=3),
            r"9 weights are missing, such as model\.layers\.2",
        ),
        (declares("BertModel"), "is a BertModel, not a causal language model"),
        (declares("T5ForConditionalGeneration"), "is a T5ForConditionalGeneration, not a causal"),
    ],
)
def test_a_folder_that_can_not_be_loaded(copy, damage, told):
    damage(copy)
    with pytest.raises(ModelSpecError, match=told):
        load_hf(str(copy))


def test_a_broken_gguf_file(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF and no more")
    with pytest.raises(ModelSpecError, match=r"x\.gguf' can't be loaded"):
        load_hf(str(tmp_path / "x.gguf"))


def test_an_unknown_device_or_precision(llama_folder):
    with pytest.raises(ModelSpecError, match="device 'banana'"):
        load_hf(str(llama_folder), device="banana")
    with pytest.raises(ParameterError, match="dtype='int3'"):
        load_hf(str(llama_folder), dtype="int3")


def test_the_context_comes_from_the_tokenizer_where_the_model_does_not_tell(tmp_path, qwen_folder):
    tiny_module("bloom", vocabulary=378, n_layer=1, n_head=2).save_pretrained(tmp_path)
    edit(tmp_path / "config.json", max_position_embeddings=None, seq_length=None)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(qwen_folder / name, tmp_path / name)
    assert load_hf(str(tmp_path)).context_tokens == 2048
    edit(tmp_path / "tokenizer_config.json", model_max_length=100)
    assert load_hf(str(tmp_path)).context_tokens == 100


def test_loading_says_nothing_and_leaves_the_logging_alone(copy, capfd):
    logger = logging.getLogger("transformers")
    level = logger.level
    edit(copy / "config.json", an_unknown_setting=1)
    load_hf(str(copy))
    assert capfd.readouterr() == ("", "")
    assert logger.level == level


def test_a_gguf_file_is_gone_through_once(tmp_path, monkeypatch):
    opened = []

    class Counting(gguf.GGUFReader):
        def __init__(self, path):
            opened.append(path)
            super().__init__(path)

    monkeypatch.setattr(gguf, "GGUFReader", Counting)
    load_parts(str(save_tiny_gguf(tmp_path / "tiny.gguf")))
    assert opened == [str(tmp_path / "tiny.gguf")]
    assert gguf.GGUFReader is Counting


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_name_that_the_hub_can_not_be_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelSpecError, match=r"^model 'nobody/no-such-model' can't be loaded: ") as refused:
        load_hf("nobody/no-such-model")
    assert "check the spelling and the network" in str(refused.value)


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_package_is_named(package):
    code = f"import sys\nsys.modules[{package!r}] = None\nimport askance.models.hf"
    last = run_python(code).stderr.strip().splitlines()[-1]
    assert last.startswith("askance.core.errors.MissingExtra")
    assert f"needs the package {package!r}, which is not installed: {install_line('local')}" in last


def test_neither_the_package_nor_its_core_imports_torch():
    code = "import sys, askance, askance.core.types, askance.models.bundled\nprint('torch' in sys.modules)"
    assert run_python(code).stdout.strip() == "False"
