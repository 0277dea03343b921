"""Files that are missing, truncated, foreign or of another kind are refused; llama.cpp prints nothing."""

import os
import sys

import pytest
from tests.contracts.model_contract import run
from tests.models.llama.calls import ALL, ids_of, written
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
from askance.models.llama_cpp import LlamaModel, load_gguf, weights
from askance.models.llama_cpp.weights import Weights


def test_a_specification_names_a_file_or_its_folder(gguf_files, tmp_path):
    file = gguf_files["qwen"][0]
    name = b"model-\xff.gguf" if sys.platform == "linux" else b"model.gguf"  # elsewhere names are text
    (tmp_path / os.fsdecode(name)).write_bytes(file.read_bytes())
    model, in_folder = load_model(f"gguf:{file}"), load_gguf(str(tmp_path))
    assert (model.name, model.context_tokens, in_folder.context_tokens) == (str(file), 512, 512)
    plain = load_model(f"gguf:{file}?attention=0")
    assert plain.signals == model.signals - {"attention"}
    other = load_gguf(str(save_gguf(tmp_path / "other.gguf", *tiny_llama(seed=4))))
    assert in_folder.fingerprint == model.fingerprint
    assert len({each.fingerprint for each in (model, plain, other)}) == 3
    with pytest.raises(ModelSpecError, match=r"holds 2 \.gguf files \(model.*, other.gguf\): name one"):
        load_gguf(str(tmp_path))


FOREIGN = r"is no GGUF file: it begins with b'.*Name a \.gguf file"
CUT = r"can't be loaded: .+\. Fetch it again"


def cut(share):
    return lambda whole: whole[: int(len(whole) * share)]


@pytest.mark.parametrize(
    ("change", "options", "error", "told"),
    [
        (None, "", ModelSpecError, r"holds 0 \.gguf files \(none\)"),
        (None, "/no/such.gguf", ModelSpecError, "does not exist: check the path"),
        *((lambda _, new=new: new, "/it", ModelSpecError, FOREIGN) for new in (b"", b"GG", b"PK\3\4 zip")),
        *((cut(share), "/it", ModelSpecError, CUT) for share in (0.0005, 0.01, 0.2, 0.6, 0.999)),
        (
            lambda whole: whole.replace(b"qwen2", b"qwenX"),
            "/it",
            ModelSpecError,
            "can't be loaded: error loading model: unknown model architecture: 'qwenX'",
        ),
        (bytes, "/it?device=cpu", UnknownName, "device"),
        (bytes, "/it?attention=yes", ParameterError, "attention='yes': expected 0 or 1"),
    ],
)
def test_what_is_no_model_is_refused_and_nothing_is_printed(
    gguf_files, tmp_path, capfd, change, options, error, told
):
    if change is not None:
        (tmp_path / "it").write_bytes(change(gguf_files["qwen"][0].read_bytes()))
    with pytest.raises(error, match=told):
        load_model(f"gguf:{tmp_path}{options}")
    assert capfd.readouterr() == ("", "")


def test_no_name():
    with pytest.raises(ModelSpecError, match="names no file"):
        load_gguf("")


@pytest.mark.parametrize(
    ("function", "value", "told"),
    [
        ("llama_vocab_type", 0, "has no tokenizer that reads every text"),
        ("llama_vocab_get_text", b"", "has no tokenizer that reads every text: convert the model again"),
        ("llama_model_has_encoder", True, "is of the kind llama, no causal language model"),
    ],
)
def test_a_model_that_generates_no_text(gguf_files, monkeypatch, function, value, told):
    monkeypatch.setattr(weights.llama, function, lambda *_: value)
    with pytest.raises(ModelSpecError, match=told):
        Weights(gguf_files["llama"][0])


def test_a_model_whose_attention_is_not_shown(gguf_files):
    opened = Weights(gguf_files["qwen"][0])
    opened.num_layers = 7  # there is no such layer
    model = LlamaModel(opened, name="strange", memory_bytes=10**6)
    assert model.signals == {"logprob", "top_logprobs", "entropy", "token_probs"}
    assert "attend" not in model.capabilities
    with pytest.raises(MissingAbility, match=r"'strange' can't be read: llama\.cpp shows no weights"):
        written(model, (5, 6), 3, ALL)
    with pytest.raises(MissingAbility):
        run(model.attend((5, 6), bos=False))


def test_a_text_beyond_the_context_or_the_memory(gguf_files, gguf_models):
    with pytest.raises(PromptTooLong, match="500 tokens and 20 more"):
        written(gguf_models["qwen"], ids_of(0, 500), 20)
    opened = Weights(gguf_files["qwen"][0])
    layers, heads, size, number = 2, 2, 8, 2
    assert opened.bytes_per_token == layers * heads * (size + size) * number
    model = LlamaModel(opened, name="qwen", memory_bytes=256 * opened.bytes_per_token)
    with pytest.raises(ModelFailure, match="do not fit into the memory for 256"):
        written(model, ids_of(0, 300), 3)
    assert written(model, ids_of(0, 200), 3).generated_tokens
