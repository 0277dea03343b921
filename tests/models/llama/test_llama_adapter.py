"""A GGUF file with a LoRA on a GGUF model: its effect, and the refusal of other files."""

import copy

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from tests.contracts.model_contract import computed
from tests.models.llama.calls import ids_of, written
from tests.models.tiny_gguf import save_gguf, save_lora
from tests.tolerances import near

from askance.configuration.build import load_model
from askance.core.errors import ModelSpecError
from askance.models.llama_cpp import load_gguf

BOUND = "weights, keys and values", "float16"
RANK, ALPHA = 4, 16.0
PART, TENSOR = "model.layers.1.mlp.down_proj", "blk.1.ffn_down"
ROWS, COLUMNS = 32, 48


def halves(rows=ROWS, columns=COLUMNS, seed=3):
    random = np.random.default_rng(seed)
    a = random.normal(0, 0.2, (RANK, columns)).astype(np.float32)
    return a, random.normal(0, 0.2, (rows, RANK)).astype(np.float32)


@pytest.fixture
def lora(tmp_path):
    return save_lora(tmp_path / "lora.gguf", "llama", {TENSOR: halves()})


def entropies(model):
    return [token.entropy for token in computed(written(model, ids_of(0, 20), 6))]


def test_it_is_added_to_the_weights_and_makes_another_model(gguf_files, lora, tmp_path):
    file, module, tokenizer = gguf_files["llama"]
    a, b = halves()
    merged = copy.deepcopy(module)
    with torch.no_grad():
        merged.get_submodule(PART).weight += torch.from_numpy(b @ a) * ALPHA / RANK
    expected = entropies(load_gguf(str(save_gguf(tmp_path / "merged.gguf", merged, tokenizer))))
    other = save_lora(tmp_path / "other.gguf", "llama", {"blk.0.ffn_down": halves()})
    specs = [f"gguf:{file}{end}" for end in ("", f"?adapter={lora}", f"?attention=0&adapter={other}")]
    plain, adapted, another = map(load_model, specs)
    assert entropies(adapted) == near(expected, *BOUND)
    assert entropies(plain) != near(expected, *BOUND)
    assert adapted.name == f"{file}?adapter={lora}"
    assert ["attention" in model.signals for model in (adapted, another)] == [True, False]
    assert len({model.fingerprint for model in (plain, adapted, another)}) == 3


def lora_for(tensor, *shape):
    return lambda path, lora, base: save_lora(path, "llama", {tensor: halves(*shape)})


def cut(share):
    return lambda path, lora, base: path.write_bytes(lora.read_bytes()[: int(lora.stat().st_size * share)])


FITS_NOT = ("does not fit model", "Name one that was made for this model")
REFUSED = {
    "none": (lambda *_: None, "llama", ("adapter file", "can't be read: No such file")),
    "a folder": (
        lambda path, *_: path.mkdir(),
        "llama",
        ("Is a directory", "folders of peft go with models of the kind hf", "convert_lora_to_gguf.py"),
    ),
    "foreign": (
        lambda path, *_: path.write_bytes(b"\x08\x00\x00\x00 a header"),
        "llama",
        (r"is no GGUF file: it begins with b'\x08\x00\x00\x00'", "folders of peft"),
    ),
    "a model": (lambda path, _, base: path.symlink_to(base), "llama", (*FITS_NOT, "general.type")),
    "of another architecture": (
        lambda path, lora, _: path.symlink_to(lora),
        "qwen",
        ("model arch and LoRA arch mismatch",),
    ),
    "of another shape": (lora_for("blk.1.ffn_down", 48, 7), "llama", (*FITS_NOT, "blk.1.ffn_down")),
    "of another layer": (lora_for("blk.40.ffn_down"), "llama", (*FITS_NOT, "blk.40.ffn_down")),
    "of a strange tensor": (lora_for("blk.1.strange", 4, 4), "llama", (*FITS_NOT, "blk.1.strange")),
    "cut in its head": (cut(0.1), "llama", ("does not fit model",)),
    "cut in the middle": (cut(0.5), "llama", ("does not fit model",)),
    "cut at its end": (cut(0.95), "llama", ("does not fit model",)),
}


@pytest.mark.parametrize(("save", "base", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_adapter_of_the_model(gguf_files, lora, tmp_path, capfd, save, base, told):
    save(tmp_path / "adapter", lora, gguf_files[base][0])
    with pytest.raises(ModelSpecError) as caught:
        load_model(f"gguf:{gguf_files[base][0]}?adapter={tmp_path / 'adapter'}")
    assert all(part in str(caught.value) for part in told), caught.value
    assert capfd.readouterr() == ("", "")
