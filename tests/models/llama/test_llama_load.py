"""Files that are missing, truncated, foreign or of another kind are refused; llama.cpp prints nothing."""

import os
import subprocess
import sys

import pytest
from tests.contracts.model_contract import run
from tests.models.tiny_gguf import save_gguf, tiny_llama

from askance.configuration.build import load_model
from askance.core.errors import (
    MissingAbility,
    ModelFailure,
    ModelSpecError,
    ParameterError,
    PromptTooLong,
    UnknownName,
)
from askance.core.types import GenerateRequest, Raw, Sampling, Want
from askance.models.llama_cpp import LlamaModel, load_gguf, weights
from askance.models.llama_cpp.weights import Weights


def test_a_specification(gguf_files):
    file, _, _ = gguf_files["qwen"]
    model = load_model(f"gguf:{file}")
    assert model.name == str(file)
    assert model.context_tokens == 512
    assert load_model(f"gguf:{file}?attention=0").signals == model.signals - {"attention"}
    with pytest.raises(UnknownName, match="device"):
        load_model(f"gguf:{file}?device=cpu")
    with pytest.raises(ParameterError, match="attention='yes': expected 0 or 1"):
        load_model(f"gguf:{file}?attention=yes")


def test_a_folder_with_one_file(gguf_files, tmp_path):
    file, _, _ = gguf_files["qwen"]
    with pytest.raises(ModelSpecError, match=r"holds 0 \.gguf files \(none\)"):
        load_gguf(str(tmp_path))
    (tmp_path / "one.gguf").write_bytes(file.read_bytes())
    assert load_gguf(str(tmp_path)).context_tokens == 512
    (tmp_path / "two.gguf").write_bytes(file.read_bytes())
    with pytest.raises(ModelSpecError, match=r"holds 2 \.gguf files \(one.gguf, two.gguf\): name one"):
        load_gguf(str(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have names of characters")
def test_a_name_that_is_no_utf_8(gguf_files, tmp_path):
    path = tmp_path / os.fsdecode(b"model-\xff.gguf")
    path.write_bytes(gguf_files["qwen"][0].read_bytes())
    assert load_gguf(str(path)).context_tokens == 512


@pytest.mark.parametrize(
    ("name", "expected"), [("", "names no file"), ("/no/such.gguf", "does not exist: check the path")]
)
def test_no_file(name, expected):
    with pytest.raises(ModelSpecError, match=expected):
        load_gguf(name)


FOREIGN = r"is no GGUF file: it begins with b'.*Name a \.gguf file"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        *(
            (lambda whole, content=content: content, FOREIGN)
            for content in (b"", b"GG", b"PK\3\4 a zip", b"ggml")
        ),
        (
            lambda whole: whole.replace(b"qwen2", b"qwenX"),
            "can't be loaded: error loading model: unknown model architecture: 'qwenX'",
        ),
    ],
)
def test_a_file_of_another_kind(tmp_path, gguf_files, change, expected):
    path = tmp_path / "model.gguf"
    path.write_bytes(change(gguf_files["qwen"][0].read_bytes()))
    with pytest.raises(ModelSpecError, match=expected):
        load_gguf(str(path))


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.2, 0.6, 0.999])
def test_a_file_that_is_cut_off(gguf_files, tmp_path, capfd, share):
    whole = gguf_files["qwen"][0].read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModelSpecError, match=r"can't be loaded: .+\. Fetch it again"):
        load_gguf(str(path))
    assert capfd.readouterr() == ("", "")


def test_nothing_is_printed(gguf_files):
    code = f"""
import asyncio
from askance.core.types import GenerateRequest, Raw, Sampling, Want
from askance.configuration.build import load_model
model = load_model("gguf:{gguf_files["llama"][0]}")
request = GenerateRequest(Raw(((5, 6),)), Sampling(3), Want(attention="mean"), key=("a",))
asyncio.run(model.generate(request))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_model_whose_attention_is_not_shown(gguf_files):
    weights = Weights(gguf_files["qwen"][0])
    weights.num_layers = 7  # there is no such layer
    model = LlamaModel(weights, name="strange", memory_bytes=10**6)
    assert model.signals == {"logprob", "top_logprobs", "entropy", "token_probs"}
    assert "attend" not in model.capabilities
    with pytest.raises(MissingAbility, match=r"'strange' can't be read: llama\.cpp shows no weights"):
        run(model.generate(GenerateRequest(Raw(((5, 6),)), Sampling(3), Want(attention="mean"), key=("a",))))
    with pytest.raises(MissingAbility):
        run(model.attend((5, 6), bos=False))


def test_a_text_beyond_the_context(gguf_models):
    with pytest.raises(PromptTooLong, match="500 tokens and 20 more"):
        run(gguf_models["qwen"].generate(GenerateRequest(Raw(((5,) * 500,)), Sampling(20), key=("a",))))


def test_a_text_beyond_the_memory(gguf_files):
    opened = Weights(gguf_files["qwen"][0])
    model = LlamaModel(opened, name="qwen", memory_bytes=256 * opened.bytes_per_token)
    with pytest.raises(ModelFailure, match="do not fit into the memory for 256"):
        run(model.generate(GenerateRequest(Raw(((5,) * 300,)), Sampling(3), key=("a",))))
    (generation,) = run(model.generate(GenerateRequest(Raw(((5,) * 200,)), Sampling(3), key=("a",))))
    assert generation.generated_tokens


def test_the_fingerprint_is_that_of_the_file(gguf_files, tmp_path):
    file, _, _ = gguf_files["llama"]
    (tmp_path / "copy.gguf").write_bytes(file.read_bytes())
    other = save_gguf(tmp_path / "other.gguf", *tiny_llama(seed=4))
    found = [load_gguf(str(path)).fingerprint for path in (file, tmp_path / "copy.gguf", other)]
    assert found[0] == found[1]
    assert len({*found, load_gguf(str(file), attention="0").fingerprint}) == 3


def test_bytes_of_a_token(gguf_files):
    layers, heads, size, number = 2, 2, 8, 2
    assert Weights(gguf_files["llama"][0]).bytes_per_token == layers * heads * (size + size) * number


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("llama_vocab_type", 0, "has no tokenizer: convert the model again"),
        ("llama_model_has_encoder", True, "is of the kind llama, no causal language model"),
    ],
)
def test_a_model_that_generates_no_text(gguf_files, monkeypatch, function, value, expected):
    monkeypatch.setattr(weights.llama, function, lambda pointer: value)
    with pytest.raises(ModelSpecError, match=expected):
        Weights(gguf_files["llama"][0])
