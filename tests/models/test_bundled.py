"""Test that the bundled model is converted once, completely or not at all."""

import json
import os
import re
import resource
import signal
import subprocess
import sys

import pytest

pytest.importorskip("torch")

import torch
from tests.models.tiny import save_adapter, save_tiny_gguf
from tests.tolerances import assert_near

from askance.configuration.build import load_model
from askance.core.errors import MissingExtra, ModelSpecError
from askance.core.installing import embedded_line, install_line
from askance.models import bundled as module
from askance.models.bundled import cache_folder
from askance.models.hf.adapter import torch_folder
from askance.models.loaders import load_bundled_model as load


def test_a_disk_that_is_full(tiny_package):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(ModelSpecError, match=r"can't be written: .*File too large.*take 600 MB, and \d+"):
            load("base", engine="torch")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert load("base", engine="torch").name == "bundled:base"


def test_the_cache_folder_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("ASKANCE_CACHE")
    assert cache_folder().name == "askance"


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(module, "_PACKAGE", "no_such_package")
    with pytest.raises(ModelSpecError, match=re.escape(embedded_line())):
        load(engine="torch")


def test_the_fingerprint_depends_on_the_content(tmp_path):
    path = tmp_path / "file"
    fingerprints = set()
    for content in (b"", b"a", b"b" * 200_000, b"b" * 199_999 + b"c"):
        path.write_bytes(content)
        fingerprints.add(module._fingerprint(path))
    assert len(fingerprints) == 4


def test_conversion_changes_nothing(tmp_path, few_layers_file):
    from askance.models.hf import HfModel, load, load_hf

    original_module, tokenizer = load.load_parts(str(few_layers_file), device="cpu", dtype="float32")
    load.save_parts(original_module, tokenizer, tmp_path)
    original = HfModel(original_module, tokenizer, name="original")
    converted = load_hf(str(tmp_path))
    text = "The river Rhine flows through <|im_end|> 中 \n\n  Cologne."
    ids = original.tokenize(text)
    assert ids == converted.tokenize(text)
    with torch.inference_mode():
        logits = [model._backend.module(torch.tensor([ids])).logits for model in (original, converted)]
    assert torch.equal(*logits)
    assert original._vocabulary.control == converted._vocabulary.control
    assert original._vocabulary.end_ids == converted._vocabulary.end_ids
    assert original.capabilities == converted.capabilities
    assert converted.context_tokens == 8192


@pytest.fixture
def tiny_package(tmp_path, monkeypatch):
    """Return the file of a tiny model whose package replaces the real one, with an empty cache."""
    folder = tmp_path / "tiny_llm"
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "_PACKAGE", "tiny_llm")
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path / "cache"))
    return save_tiny_gguf(folder / module._FILE)


@pytest.fixture
def tiny_reader(tiny_package, tmp_path, monkeypatch):
    """Return an adapter for it that replaces the bundled one."""
    folder = save_adapter(tmp_path / "reader", str(tiny_package), base_spec="bundled:base")
    monkeypatch.setattr(module, "READER", folder)
    return folder


def logits(model):
    with torch.inference_mode():
        return model._backend.module(torch.tensor([[5, 90, 200, 31, 7]])).logits


def cached():
    return {path.name for path in (cache_folder() / "models").iterdir() if path.is_dir()}


def test_a_conversion_keeps_the_fingerprint(tiny_package):
    from askance.models.hf.fingerprint import weights_fingerprint
    from askance.models.hf.load import load_parts
    from askance.models.local.encoding import chat_template_digest

    read, converted = load_parts(str(tiny_package)), load_parts(str(torch_folder()))
    assert weights_fingerprint(read[0]) == weights_fingerprint(converted[0])
    assert chat_template_digest(read[1]) == chat_template_digest(converted[1])
    assert all(weights.requires_grad for weights in converted[0].parameters())


def test_the_adapter_that_ships_is_merged_once(tiny_reader, monkeypatch):
    from peft import PeftModel

    from askance.models.hf import adapter
    from askance.models.hf.load import load_parts
    from askance.models.hf.noise import quiet

    bundled = load(engine="torch")
    monkeypatch.setattr(adapter, "open_adapter", lambda folder: pytest.fail("merged again"))
    assert torch.equal(logits(load(engine="torch")), logits(bundled))
    assert bundled.name == "bundled"
    plain = load("base", engine="torch")
    with quiet():
        unmerged = PeftModel.from_pretrained(load_parts(str(torch_folder()))[0], tiny_reader)
    assert (logits(bundled) - logits(plain)).abs().max() > 0.1
    with torch.inference_mode():
        expected = unmerged(torch.tensor([[5, 90, 200, 31, 7]])).logits
    assert_near(logits(bundled), expected, "thirty layers")
    assert bundled.tokenize("the <think> river") == plain.tokenize("the <think> river")
    assert bundled._vocabulary.end_ids == plain._vocabulary.end_ids
    assert len(cached()) == 2


def test_a_new_adapter_is_a_new_model(tiny_reader):
    before = logits(load(engine="torch"))
    settings = json.loads((tiny_reader / "adapter_config.json").read_text())
    settings["lora_alpha"] *= 2
    (tiny_reader / "adapter_config.json").write_text(json.dumps(settings))
    assert not torch.equal(logits(load(engine="torch")), before)
    assert len(cached()) == 2


def test_an_adapter_for_another_model_leaves_nothing(tiny_package, llama_folder, tmp_path, monkeypatch):
    folder = save_adapter(tmp_path / "reader", str(llama_folder), base_spec="hf:llama")
    monkeypatch.setattr(module, "READER", folder)
    with pytest.raises(ModelSpecError, match=r"was trained on 'hf:llama' .*not on 'bundled:base'"):
        load(engine="torch")
    assert cached() == set()


def test_a_merged_copy_needs_no_peft(tiny_reader, monkeypatch):
    before = logits(load(engine="torch"))
    monkeypatch.setitem(sys.modules, "peft", None)
    assert torch.equal(logits(load(engine="torch")), before)
    monkeypatch.setenv("ASKANCE_CACHE", str(cache_folder() / "another"))
    with pytest.raises(MissingExtra, match=re.escape(install_line("local"))):
        load(engine="torch")


def test_a_killed_merge_is_begun_anew(tiny_package, tiny_reader, tmp_path):
    code = f"""
import os, signal, sys
from pathlib import Path
from transformers import PreTrainedTokenizerBase
from askance.models import bundled
from askance.models.hf.adapter import torch_folder

sys.path.insert(0, {str(tmp_path)!r})
bundled._PACKAGE, bundled.READER = "tiny_llm", Path({str(tiny_reader)!r})
# The model is written at that point, but not its tokenizer.
PreTrainedTokenizerBase.save_pretrained = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
torch_folder("")
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    (partial,) = (cache_folder() / "models").glob("*.partial")
    assert (partial / "model.safetensors").is_file()
    target = partial.with_suffix("")
    assert not target.exists()
    folder = torch_folder("")
    assert folder == target
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    assert not partial.exists()


def test_an_adapter_of_ones_own_on_the_plain_model(tiny_reader):
    model = load_model(f"bundled:base?adapter={tiny_reader}")
    assert model.name == f"bundled:base?adapter={tiny_reader}"
    assert torch.equal(logits(model), logits(load(engine="torch")))
    assert torch.equal(logits(load_model(f"hf:{tiny_reader}")), logits(model))


def test_the_plain_model_answers(bundled):
    import asyncio

    from askance.core.types import Chat, GenerateRequest, Sampling, Span, Turn

    assert bundled.name == "bundled:base"
    assert bundled.context_tokens == 8192
    assert "ASKANCE_CACHE" not in os.environ or cache_folder().is_dir()
    chat = Chat((Turn("user", (Span("What is the capital of France?"),)),))
    (generation,) = asyncio.run(bundled.generate(GenerateRequest(chat, Sampling(20), key=("q",))))
    assert "Paris" in generation.text
    assert generation.finish == "end"
