"""`askance train relevance` as a user types it, and the reranker that it makes."""

import asyncio
import json

import onnx
import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from transformers import BertForSequenceClassification

from askance.configuration.build import load_reranker
from askance.core.errors import ModelFailure, ModelSpecError
from askance.core.types import Passage
from askance.models.hf.encoder import load_torch_cross_encoder as load_with_torch
from askance.models.onnx.cross_encoder import OnnxCrossEncoder
from askance_lab.training.relevance import save
from askance_lab.training.relevance.settings import RelevanceSettings
from askance_lab.training.relevance.train_relevance import load_base
from tests.models.tiny_cross_encoder import save_cross_encoder
from tests.models.tiny_encoder import save_plain
from tests.tolerances import near

TINY = ["--set", "pairs_per_step=4", "--set", "max_tokens=64", "--set", "epochs=2", "--set", "held_out=0.3"]
WORDS = ["cat red", "dog blue", "boat green", "ball six", "bank one", "river two", "hill three", "road four"]
PASSAGES = [
    Passage("1", "cat", "The cat was red."),
    Passage("2", "dog", "The dog was blue, and nobody has ever seen another one."),
    Passage("3", "boat", "The boat was red."),
    Passage("4", "", ""),
]


@pytest.fixture(autouse=True)
def one_thread():
    """On a busy machine, the threads of a tiny model wait for each other most of the time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def row(number, words):
    name, colour = words.split()
    text = f"The colour of the {name} was {colour}."
    paragraphs = [{"title": name, "text": text, "evidence": [text]}]
    question = f"Which colour was the {name}?"
    return {"id": f"q{number}", "question": question, "answers": [colour], "paragraphs": paragraphs}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row(number, words)) for number, words in enumerate(WORDS)))
    return f"jsonl:{path}"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_plain(tmp_path_factory.mktemp("encoder") / "plain")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return tmp_path_factory.mktemp("trained") / "cross"


@pytest.fixture
def reranker(run, dataset, encoder, trained):
    """The folder of a trained cross-encoder, made by the first test that needs it."""
    if not trained.exists():
        code, _, told = command(run, dataset, encoder, trained)
        assert code == 0, told
    return trained


def command(run, dataset, model, out, *more):
    return run(
        "train", "relevance", "--dataset", dataset, "--model", f"hf:{model}", "--out", out, *TINY, *more
    )


def scores(reranker, query="Which colour was the cat?", passages=PASSAGES):
    return asyncio.run(reranker.score(query, passages))


def test_the_whole_way(run, dataset, encoder, trained, tmp_path):
    code, shown, told = command(run, dataset, encoder, trained, "--dry-run")
    assert (code, told, trained.exists()) == (0, "", False)
    assert "jsonl relevance " in " ".join(shown.split())
    code, shown, told = command(run, dataset, encoder, trained)
    assert code == 0, told
    told, shown = " ".join(told.split()), " ".join(shown.split())
    assert "dataset task pairs of which positive jsonl relevance " in told
    assert "tokens in float32" in told
    assert "held out pairs AUC of BM25's score of the length jsonl, relevance " in shown
    assert f"the cross-encoder is in {trained}" in shown
    assert f"--rerank cross-encoder:{trained}" in shown
    card = (trained / "README.md").read_text()
    assert "| jsonl | " in card
    assert f"hf:{encoder.name}" in card
    assert str(encoder) not in card, "where a folder is, is private"
    assert [path.name for path in trained.parent.iterdir()] == ["cross"], "no checkpoints are left"
    code, _, told = command(run, dataset, encoder, trained)
    assert code == 2
    assert "is there already" in told


def test_the_exported_model_scores_like_the_trained_one(reranker):
    """With random weights, 7 bits change scores by a few hundredths of their range."""
    exported = load_reranker(f"cross-encoder:{reranker}")
    assert isinstance(exported, OnnxCrossEncoder)
    with_torch = load_with_torch(str(reranker), device="cpu")
    assert scores(exported) == near(scores(with_torch), "7 bits", "8 bits")
    alone = [scores(exported, passages=[passage])[0] for passage in PASSAGES]
    assert scores(exported) == near(alone, "7 bits", "8 bits"), "other pairs change nothing"
    long = Passage("5", "cat", "The cat was red. " * 200)
    assert len(scores(exported, "Which? " * 200, [long, *PASSAGES])) == 5
    assert len(scores(exported, "\ud800 \x00", [Passage("6", "\udfff", "\x00")])) == 1
    assert scores(exported, passages=[]) == []
    assert load_reranker(f"cross-encoder:{reranker}").fingerprint == exported.fingerprint
    assert not isinstance(load_reranker(f"cross-encoder:{reranker}?device=cpu"), OnnxCrossEncoder)


def test_a_reranker_that_breaks(reranker, monkeypatch):
    exported = load_reranker(f"cross-encoder:{reranker}")

    class Broken:
        def run(self, *anything):
            raise Fail("no memory\nmore")

    monkeypatch.setattr(exported, "_session", Broken())
    with pytest.raises(ModelFailure, match=r"the reranker cross-encoder:.* broke: no memory\.$"):
        scores(exported)


def test_a_full_disk_leaves_the_checkpoint(run, dataset, encoder, tmp_path, monkeypatch):
    def full(*anything):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(save, "write_onnx", full)
    code, _, told = command(run, dataset, encoder, tmp_path / "cross")
    assert code == 1, "a failure of the machine"
    assert "No space left on device. Free space, then give the same command again" in " ".join(told.split())
    assert [path.name for path in tmp_path.iterdir()] == ["cross.training"]
    monkeypatch.undo()
    code, _, told = command(run, dataset, encoder, tmp_path / "cross")
    assert code == 0, told


def halved(content):
    return content[: len(content) // 2]


def with_limit(limit):
    def changed(content):
        model = onnx.load_from_string(content)
        assert {each.key: each.value for each in model.metadata_props}["max_tokens"] == "64"
        onnx.helper.set_model_props(model, {"max_tokens": limit})
        return model.SerializeToString()

    return changed


@pytest.mark.parametrize(
    ("file", "changed", "told"),
    [
        ("model.onnx", halved, r"can't be loaded from .*Fetch it again"),
        ("tokenizer.json", halved, r"can't be loaded from .*Fetch it again"),
        *(
            ("model.onnx", with_limit(limit), r"states max_tokens='.*', which is no whole number from 8")
            for limit in ("0", "-1", "many", "9" * 30, "²")
        ),
    ],
)
def test_damaged_files(reranker, tmp_path, file, changed, told):
    for name in ("model.onnx", "tokenizer.json"):
        content = (reranker / name).read_bytes()
        (tmp_path / name).write_bytes(changed(content) if name == file else content)
    with pytest.raises(ModelSpecError, match=told):
        load_reranker(f"cross-encoder:{tmp_path}")


def test_a_model_that_can_not_be_exported_is_run_by_torch_and_has_the_limit_of_its_encoder(
    run, dataset, encoder, tmp_path, monkeypatch
):
    def fails(*anything):
        raise ValueError("no such operator\nmore")

    monkeypatch.setattr(save, "write_onnx", fails)
    words = ["--dataset", dataset, "--model", f"hf:{encoder}", "--out", tmp_path / "cross"]
    code, shown, told = run("train", "relevance", *words, "--set", "max_tokens=4000")
    assert code == 0, told
    assert "there is no model.onnx, so torch runs this model: no such operator" in shown
    card = (tmp_path / "cross" / "README.md").read_text()
    assert "no such operator" in card
    assert "| max_tokens | 128 |" in card
    long = Passage("1", "cat", "The cat was red. " * 300)
    assert len(scores(load_reranker(f"cross-encoder:{tmp_path / 'cross'}"), passages=[long])) == 1


def test_bad_input(run, dataset, encoder, tmp_path):
    bare = tmp_path / "bare.jsonl"
    bare.write_text(json.dumps({"id": "q", "question": "Which?", "answers": ["red"]}))
    for rows, model, message in (
        (dataset, "bundled:base", "can't be trained: start from bundled, or from hf:NAME"),
        (dataset, "gguf:x", "can't be trained"),
        (dataset, "hf:/nowhere", "does not exist"),
        (f"jsonl:{bare}", f"hf:{encoder}", "no pairs to train on"),
    ):
        words = ["--dataset", rows, "--model", model, "--out", tmp_path / "cross", *TINY]
        code, _, told = run("train", "relevance", *words)
        assert (code, message in " ".join(told.split())) == (2, True), model
    with pytest.raises(ModelSpecError):
        load_base(f"hf:{save_cross_encoder(tmp_path / 'three', num_labels=3)}", RelevanceSettings())
    assert not (tmp_path / "cross").exists()


def test_the_bundled_encoder_is_a_base_and_a_cross_encoder_keeps_its_last_layers(tmp_path):
    base, again = (load_base("bundled", RelevanceSettings()).module for _ in range(2))
    assert base.num_labels == 1
    assert torch.equal(base.classifier.weight, again.classifier.weight), "the seed decides"
    pooling = base.bert.pooler.dense
    assert torch.equal(pooling.weight, torch.eye(pooling.in_features)), "its own weights are almost nothing"
    folder = save_cross_encoder(tmp_path / "cross")
    kept = load_base(f"hf:{folder}", RelevanceSettings()).module.state_dict()
    plain = BertForSequenceClassification.from_pretrained(folder).state_dict()
    assert all(torch.equal(kept[name], weights) for name, weights in plain.items())
