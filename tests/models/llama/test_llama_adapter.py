"""A GGUF file with a LoRA on a GGUF model: its effect, and the refusal of other files."""

import copy

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from tests.contracts.model_contract import computed, run
from tests.models.tiny_gguf import save_gguf, save_lora
from tests.tolerances import near

from askance.configuration.build import load_model
from askance.core.errors import ModelSpecError
from askance.core.types import GenerateRequest, Raw, Sampling, Want
from askance.models.llama_cpp import load_gguf

BOUND = "one layer, keys and values", "float16"
RANK, ALPHA = 4, 16.0
PART, TENSOR = "model.layers.1.mlp.down_proj", "blk.1.ffn_down"


def halves_for(module, part=PART, tensor=TENSOR):
    rows, columns = module.get_submodule(part).weight.shape
    random = np.random.default_rng(3)
    a = random.normal(0, 0.2, (RANK, columns)).astype(np.float32)
    return {tensor: (a, random.normal(0, 0.2, (rows, RANK)).astype(np.float32))}


@pytest.fixture
def lora(gguf_files, tmp_path):
    return save_lora(tmp_path / "lora.gguf", "llama", halves_for(gguf_files["llama"][1]))


def entropies(model):
    prompt = Raw((tuple(range(5, 25)),))
    (generation,) = run(model.generate(GenerateRequest(prompt, Sampling(6), Want(entropy=True), key=("a",))))
    return [token.entropy for token in computed(generation)]


def test_it_is_added_to_the_weights(gguf_files, lora, tmp_path):
    file, module, tokenizer = gguf_files["llama"]
    ((a, b),) = halves_for(module).values()
    merged = copy.deepcopy(module)
    with torch.no_grad():
        merged.get_submodule(PART).weight += torch.from_numpy(b @ a) * ALPHA / RANK
    expected = entropies(load_gguf(str(save_gguf(tmp_path / "merged.gguf", merged, tokenizer))))
    model = load_model(f"gguf:{file}?adapter={lora}")
    assert entropies(model) == near(expected, "weights, keys and values", "float16")
    assert entropies(load_gguf(str(file))) != near(expected, "weights, keys and values", "float16")
    assert model.name == f"{file}?adapter={lora}"
    assert "attention" in model.signals


def test_a_model_with_another_adapter_is_another_model(gguf_files, lora, tmp_path):
    file, module, _ = gguf_files["llama"]
    other = save_lora(
        tmp_path / "other.gguf", "llama", halves_for(module, "model.layers.0.mlp.down_proj", "blk.0.ffn_down")
    )
    specs = [f"gguf:{file}", f"gguf:{file}?adapter={lora}", f"gguf:{file}?adapter={other}"]
    assert len({load_model(spec).fingerprint for spec in specs}) == 3


def test_with_other_options(gguf_files, lora):
    model = load_model(f"gguf:{gguf_files['llama'][0]}?attention=0&adapter={lora}")
    assert "attention" not in model.signals


def refused(base, adapter):
    with pytest.raises(ModelSpecError) as caught:
        load_model(f"gguf:{base}?adapter={adapter}")
    return str(caught.value)


PEFT = "folders of peft go with models of the kind hf"


@pytest.mark.parametrize(
    ("base", "name", "told"),
    [
        ("llama", "none.gguf", ("adapter file", "can't be read: No such file")),
        ("llama", "", ("can't be read: Is a directory", PEFT, "convert_lora_to_gguf.py")),
        ("llama", "foreign", ("adapter file", r"is no GGUF file: it begins with b'\x08\x00\x00\x00'", PEFT)),
        ("llama", "base", ("does not fit model", "general.type")),
        ("qwen", "lora.gguf", ("model arch and LoRA arch mismatch",)),
    ],
)
def test_what_is_no_adapter_of_the_model(gguf_files, lora, tmp_path, base, name, told):
    (tmp_path / "foreign").write_bytes(b"\x08\x00\x00\x00 a header")
    (tmp_path / "base").symlink_to(gguf_files["llama"][0])
    message = refused(gguf_files[base][0], tmp_path / name)
    assert all(part in message for part in told), message


@pytest.mark.parametrize(
    ("tensor", "shape"),
    [("blk.1.ffn_down", (48, 7)), ("blk.40.ffn_down", (32, 64)), ("blk.1.strange", (4, 4))],
)
def test_another_base(gguf_files, tmp_path, tensor, shape):
    rows, columns = shape
    halves = np.ones((RANK, columns), np.float32), np.ones((rows, RANK), np.float32)
    told = refused(gguf_files["llama"][0], save_lora(tmp_path / "o.gguf", "llama", {tensor: halves}))
    assert "does not fit model" in told
    assert tensor in told
    assert "Name one that was made for this model" in told


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_file_that_is_cut_off(gguf_files, lora, tmp_path, capfd, share):
    path, whole = tmp_path / "cut.gguf", lora.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert "does not fit model" in refused(gguf_files["llama"][0], path)
    assert capfd.readouterr() == ("", "")
