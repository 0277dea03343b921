"""Test loading models by torch: refusals, fingerprints, notes on a faster engine, and silence otherwise."""

import json
import logging
import re
import shutil
import subprocess
import sys

import gguf
import pytest

pytest.importorskip("torch")

import torch
from huggingface_hub import constants
from tests.models.tiny import (
    byte_level_tokenizer,
    make_tokenizer_panic,
    save_tiny,
    save_tiny_gguf,
    sentencepiece_tokenizer,
    tiny_module,
)

from askance.core.errors import ModelSpecError, ParameterError
from askance.core.installing import install_line
from askance.core.notes import noted
from askance.models.hf import adapter, load_hf
from askance.models.hf.fingerprint import model_fingerprint
from askance.models.hf.load import load_parts
from askance.models.hf.model import encoding_of


@pytest.fixture
def copy(llama_folder, tmp_path):
    """Return a copy of a good model, to be damaged."""
    return shutil.copytree(llama_folder, tmp_path / "model")


def edit(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_folder(llama_folder):
    model = load_hf(str(llama_folder))
    module = model._backend.module
    assert (model.name, model.context_tokens) == (str(llama_folder), 512)
    assert (module.dtype, module.training) == (torch.float32, False)
    assert not any(weight.requires_grad for weight in module.parameters())
    module, tokenizer = load_parts(str(llama_folder))
    assert (module.dtype, tokenizer.eos_token) == (torch.float32, "</s>")
    assert all(weight.requires_grad for weight in module.parameters()), "the parts can be trained"
    rounded = load_hf(str(llama_folder), device="cpu", dtype="bfloat16")
    assert (rounded._backend.module.dtype, rounded.precision) == (torch.bfloat16, "bfloat16")


def cut_off(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])


def config(**fields):
    return lambda folder: edit(folder / "config.json", **fields)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"no config\.json"),
        (cut_off, "may be damaged"),
        (lambda folder: (folder / "config.json").write_text("{"), "may be damaged"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "may be damaged"),
        (make_tokenizer_panic, r"an extension panicked \(PanicException.*may be damaged"),
        # Transformers would fill in missing weights at random.
        (config(num_hidden_layers=3), r"9 weights are missing, such as model\.layers\.2"),
        (config(architectures=["BertModel"]), "is a BertModel, not a causal language model"),
        (config(architectures=["T5ForConditionalGeneration"]), "is a T5For.*, not a causal"),
    ],
)
def test_a_folder_that_can_not_be_loaded(copy, damage, message):
    damage(copy)
    with pytest.raises(ModelSpecError, match=message):
        load_hf(str(copy))


def test_names_that_can_not_be_used(llama_folder, tmp_path, monkeypatch):
    (tmp_path / "x.gguf").write_bytes(b"GGUF and no more")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for name, options, kind, message in (
        *((name, {}, ModelSpecError, "does not exist") for name in ("/no/model", "./no", "~/no", "no.gguf")),
        (str(tmp_path / "x.gguf"), {}, ModelSpecError, r"x\.gguf' can't be loaded"),
        (str(llama_folder), {"device": "banana"}, ModelSpecError, "device 'banana'"),
        (str(llama_folder), {"dtype": "int3"}, ParameterError, "dtype='int3'"),
        ("nobody/m", {}, ModelSpecError, "^model 'nobody/m' can't be loaded: .*the spelling and the network"),
    ):
        with pytest.raises(kind, match=message):
            load_hf(name, **options)


def test_the_context_comes_from_the_tokenizer_if_the_model_does_not_declare_it(tmp_path, qwen_folder):
    tiny_module("bloom", vocabulary=378, n_layer=1, n_head=2).save_pretrained(tmp_path)
    edit(tmp_path / "config.json", max_position_embeddings=None, seq_length=None)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(qwen_folder / name, tmp_path / name)
    assert load_hf(str(tmp_path)).context_tokens == 2048
    edit(tmp_path / "tokenizer_config.json", model_max_length=100)
    assert load_hf(str(tmp_path)).context_tokens == 100


def test_loading_prints_nothing_and_leaves_the_logging_alone(copy, capfd, recwarn):
    logger = logging.getLogger("transformers")
    level = logger.level
    edit(copy / "config.json", an_unknown_setting=1)
    load_hf(str(copy))
    adapter.load_hf_model(str(copy))
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
    assert logger.level == level


def test_a_gguf_file_is_read_once(tmp_path, monkeypatch):
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


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_package_is_named(package):
    code = f"import sys\nsys.modules[{package!r}] = None\nimport askance.models.hf"
    last = run_python(code).stderr.strip().splitlines()[-1]
    assert last.startswith("askance.core.errors.MissingExtra")
    assert f"needs the package {package!r}, which is not installed: {install_line('local')}" in last


def test_neither_the_package_nor_its_core_imports_torch():
    code = "import sys, askance, askance.core.types, askance.models.bundled\nprint('torch' in sys.modules)"
    assert run_python(code).stdout.strip() == "False"


def fingerprint(module=None, tokenizer=None):
    module = module or tiny_module("llama")
    return model_fingerprint(module, encoding_of(tokenizer or sentencepiece_tokenizer(), module, "tiny"))


def test_a_fingerprint_is_that_of_weights_settings_and_tokenizer_wherever_the_files_are(tmp_path):
    models = [load_hf(str(save_tiny(tmp_path / name, "llama", sentencepiece_tokenizer()))) for name in "ab"]
    assert models[0].fingerprint == models[1].fingerprint
    fingerprints = [load_hf(str(tmp_path / "a"), dtype="bfloat16").fingerprint, models[0].fingerprint]
    for at in (0, 1, -1):
        module = tiny_module("llama")
        module.model.layers[1].mlp.up_proj.weight.data.view(-1)[at] += 1e-3
        fingerprints.append(fingerprint(module))
    rope = {"rope_theta": 500.0, "rope_type": "default"}
    fingerprints += [fingerprint(tiny_module("llama", rope_parameters=rope))]
    fingerprints += [fingerprint(tiny_module("llama", rms_norm_eps=1e-4)), fingerprint()]
    for make, end in ((sentencepiece_tokenizer, "[INST]"), (byte_level_tokenizer, "<|im_start|>")):
        for change in (
            lambda tokenizer: setattr(tokenizer, "chat_template", tokenizer.chat_template + " "),
            lambda tokenizer: tokenizer.add_tokens(["Rhine"]),
            lambda tokenizer, end=end: setattr(tokenizer, "eos_token", end),
        ):
            tokenizer = make()
            change(tokenizer)
            fingerprints.append(fingerprint(tokenizer=tokenizer))
    fingerprints.append(fingerprint(tokenizer=byte_level_tokenizer()))
    assert len(set(fingerprints)) == len(fingerprints)


class Placed:
    def __init__(self, place):
        self.device = torch.device(place)

    def set_thinking(self, thinking):
        pass


ANY_FILE = "Model 'hf:owner/name' .*use gguf:FILE with a GGUF file of the same model, or"


@pytest.mark.parametrize(
    ("name", "place", "options", "message"),
    [
        ("some/model.gguf", "cpu", {}, "use gguf:some/model.gguf, or"),
        ("owner/name", "cpu", {}, ANY_FILE),
        ("owner/name", "cuda", {}, None),
        ("owner/name", "cuda", {"device": "auto"}, None),
        ("owner/name", "cpu", {"device": "cpu"}, None),
    ],
)
def test_a_faster_engine_is_recommended_unless_a_cpu_was_asked_for(
    monkeypatch, name, place, options, message
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(adapter, "load_hf", lambda *_, **__: Placed(place))
    monkeypatch.setattr(adapter, "load_adapted", lambda *_, **__: Placed(place))
    notes = []
    with noted(lambda kind, text: notes.append((kind, text))):
        adapter.load_hf_model(name, **options)
    assert [kind for kind, _ in notes] == (["quicker"] if message else [])
    assert all(re.search(message, text) for _, text in notes)


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_recommendation_is_shown_once(run, tmp_path, monkeypatch, is_installed):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(adapter, "find_spec", lambda package: is_installed)
    file = save_tiny_gguf(tmp_path / "tiny.gguf")
    options = ("--method", "closed_book", "--set", "max_tokens=2", "--prompts", "plain", "--json")
    code, out, err = run("ask", "The cat?", "--model", f"hf:{file}", *options)
    assert (code, type(json.loads(out))) == (0, dict)
    shown = " ".join(err.split())
    assert shown.count(f"use gguf:{file}") == 1
    assert ("pip install" in shown) == (not is_installed)
