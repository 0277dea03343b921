"""Model folders that bring code of their own: it never runs, whatever stands on standard input."""

import io
import json
import sys

import pytest
from tests.models.tiny import byte_level_tokenizer, save_tiny
from tests.models.tiny_encoder import save_encoder, save_plain
from tests.models.tiny_entailment import save_classifier

from askance.configuration.build import load_encoder, load_entailment, load_model
from askance.core.errors import ModelSpecError

CODE = "import pathlib\npathlib.Path({mark!r}).write_text('ran')\n"
MAP = {
    "AutoConfig": "own.Own",
    "AutoModel": "own.Own",
    "AutoModelForCausalLM": "own.Own",
    "AutoModelForSequenceClassification": "own.Own",
    "AutoTokenizer": ["own.Own", None],
}


def edit(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.fixture
def mark(tmp_path, monkeypatch):
    """What the code would write; and a standard input that says yes to everything."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 20))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    return tmp_path / "ran"


def with_code(folder, mark, **config):
    (folder / "own.py").write_text(CODE.format(mark=str(mark)))
    edit(folder / "config.json", auto_map=MAP, **config)
    return folder


@pytest.mark.parametrize(
    ("save", "load"),
    [
        (lambda folder: save_tiny(folder, "llama", byte_level_tokenizer()), load_model),
        (save_plain, load_encoder),
        (save_classifier, load_entailment),
    ],
    ids=["model", "encoder", "entailment"],
)
def test_a_kind_of_model_that_transformers_does_not_know(tmp_path, mark, save, load):
    folder = with_code(save(tmp_path / "model"), mark, model_type="own")
    with pytest.raises(ModelSpecError, match=r"model '.*model' brings its own code, which askance never"):
        load(f"hf:{folder}")
    assert not mark.exists()


def test_a_tokenizer_with_code(tmp_path, mark):
    folder = save_tiny(tmp_path / "model", "llama", byte_level_tokenizer())
    (folder / "own.py").write_text(CODE.format(mark=str(mark)))
    edit(folder / "tokenizer_config.json", auto_map=MAP, tokenizer_class="Own")
    with pytest.raises(ModelSpecError, match="brings its own code"):
        load_model(f"hf:{folder}")
    assert not mark.exists()


def test_a_part_of_an_encoder_with_code(tmp_path, mark):
    folder = save_encoder(tmp_path / "model")
    (folder / "own.py").write_text(CODE.format(mark=str(mark)))
    listing = json.loads((folder / "modules.json").read_text())
    listing[1]["type"] = "own.Own"
    (folder / "modules.json").write_text(json.dumps(listing))
    with pytest.raises(ModelSpecError, match="brings its own code"):
        load_encoder(f"hf:{folder}")
    assert not mark.exists()


def test_a_kind_that_transformers_knows_runs_by_its_code(tmp_path, mark):
    folder = with_code(save_tiny(tmp_path / "model", "llama", byte_level_tokenizer()), mark)
    assert "raw" in load_model(f"hf:{folder}").capabilities
    assert not mark.exists()
