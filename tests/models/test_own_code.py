"""Model folders that bring code of their own: it never runs, whatever stands on standard input."""

import io
import json
import pathlib
import pickle
import sys

import pytest
from tests.models.tiny import byte_level_tokenizer, save_tiny
from tests.models.tiny_encoder import save_encoder, save_plain
from tests.models.tiny_entailment import save_classifier

from askance.configuration.build import load_encoder, load_entailment, load_model
from askance.core.errors import ModelSpecError

CODE = "import pathlib\npathlib.Path({mark!r}).write_text('ran')\n"
CLASSES = ("Config", "Model", "ModelForCausalLM", "ModelForSequenceClassification")
MAP = {f"Auto{name}": "own.Own" for name in CLASSES} | {"AutoTokenizer": ["own.Own", None]}


def save_model(folder):
    return save_tiny(folder, "llama", byte_level_tokenizer())


class Attack:
    """An object whose pickle runs code when it is loaded."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return pathlib.Path(self.mark).write_text, ("ran",)


def edit(path, **fields):
    content = json.loads(path.read_text())
    if "modules" in path.name:
        content[1] |= fields
    else:
        content |= {"auto_map": MAP} | fields
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("save", "load", "file", "fields"),
    [
        (save_model, load_model, "config.json", {"model_type": "own"}),
        (save_plain, load_encoder, "config.json", {"model_type": "own"}),
        (save_classifier, load_entailment, "config.json", {"model_type": "own"}),
        (save_model, load_model, "tokenizer_config.json", {"tokenizer_class": "Own"}),
        (save_encoder, load_encoder, "modules.json", {"type": "own.Own"}),
        (save_model, load_model, "config.json", {}),
    ],
    ids=["model", "encoder", "entailment", "tokenizer", "part of an encoder", "kind that transformers knows"],
)
def test_the_code_of_a_folder_never_runs(tmp_path, monkeypatch, save, load, file, fields):
    """A kind of model that transformers knows runs by the code of transformers."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 20))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    folder, mark = save(tmp_path / "model"), tmp_path / "ran"
    (folder / "own.py").write_text(CODE.format(mark=str(mark)))
    edit(folder / file, **fields)
    if fields:
        with pytest.raises(ModelSpecError, match=r"model '.*model' brings its own code, which askance never"):
            load(f"hf:{folder}")
    else:
        assert "raw" in load(f"hf:{folder}").capabilities
    assert not mark.exists()


@pytest.mark.parametrize(
    ("save", "load"),
    [(save_model, load_model), (save_plain, load_encoder), (save_classifier, load_entailment)],
)
def test_pickled_weights_run_nothing(tmp_path, monkeypatch, save, load):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    folder, mark = save(tmp_path / "model"), tmp_path / "ran"
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Attack(str(mark))))
    with pytest.raises(ModelSpecError, match="can't be loaded"):
        load(f"hf:{folder}")
    assert not mark.exists()
    pickle.loads((folder / "pytorch_model.bin").read_bytes())
    assert mark.exists()
