"""`askance train relevance` as a user types it, and the reranker that it makes."""

import asyncio
import json

import onnx
import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from transformers import BertForSequenceClassification

from askance.configuration.build import load_reranker
from askance.core.errors import InputError, ModelFailure, ModelSpecError
from askance.core.types import Passage
from askance.models.hf.encoder import load_cross_encoder as load_with_torch
from askance.models.onnx.cross_encoder import OnnxCrossEncoder
from askance.models.pair_scorer import RERANKER
from askance_lab.training.loop.trainer import Trainer
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


def test_scores_do_not_depend_on_the_other_pairs(reranker):
    exported = load_reranker(f"cross-encoder:{reranker}")
    alone = [scores(exported, passages=[passage])[0] for passage in PASSAGES]
    assert scores(exported) == near(alone, "7 bits", "8 bits")
    assert scores(exported, passages=[]) == []
    assert load_reranker(f"cross-encoder:{reranker}").fingerprint == exported.fingerprint


def test_a_long_pair_is_truncated_and_odd_text_does_no_harm(reranker):
    exported = load_reranker(f"cross-encoder:{reranker}")
    long = Passage("5", "cat", "The cat was red. " * 2000)
    assert len(scores(exported, "Which? " * 2000, [long, *PASSAGES])) == 5
    assert len(scores(exported, "\ud800 \x00", [Passage("6", "\udfff", "\x00")])) == 1


@pytest.mark.parametrize("kind", [RuntimeError, Fail], ids=["torch's", "onnxruntime's"])
def test_a_reranker_that_breaks(reranker, monkeypatch, kind):
    exported = load_reranker(f"cross-encoder:{reranker}")

    class Broken:
        def run(self, *anything):
            raise kind("no memory\nmore")

    monkeypatch.setattr(exported, "_session", Broken())
    with pytest.raises(ModelFailure, match=r"the reranker cross-encoder:.* broke: no memory\.$"):
        scores(exported)


def test_damaged_files(reranker, tmp_path):
    for name in ("model.onnx", "tokenizer.json"):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("model.onnx", "tokenizer.json"):
            content = (reranker / file).read_bytes()
            (folder / file).write_bytes(content[: len(content) // 2] if file == name else content)
        with pytest.raises(ModelSpecError, match=r"can't be loaded from .*Fetch it again"):
            load_reranker(f"cross-encoder:{folder}")


@pytest.mark.parametrize("limit", ["0", "-1", "many", "9" * 30, "²"])
def test_a_file_that_states_a_senseless_limit(reranker, tmp_path, limit):
    (tmp_path / "tokenizer.json").write_bytes((reranker / "tokenizer.json").read_bytes())
    model = onnx.load(reranker / "model.onnx")
    assert {each.key: each.value for each in model.metadata_props}["max_tokens"] == "64"
    onnx.helper.set_model_props(model, {"max_tokens": limit})
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelSpecError, match=r"states max_tokens='.*', which is no whole number from 8"):
        load_reranker(f"cross-encoder:{tmp_path}")


def test_a_model_that_can_not_be_exported_is_saved_and_the_reason_is_told(
    run, dataset, encoder, tmp_path, monkeypatch
):
    def fails(*anything):
        raise ValueError("no such operator\nmore")

    monkeypatch.setattr(save, "write_onnx", fails)
    code, shown, told = command(run, dataset, encoder, tmp_path / "cross")
    assert code == 0, told
    assert "there is no model.onnx, so torch runs this model: no such operator" in shown
    assert "no such operator" in (tmp_path / "cross" / "README.md").read_text()
    assert len(scores(load_reranker(f"cross-encoder:{tmp_path / 'cross'}"))) == len(PASSAGES)


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


def test_a_pair_has_no_more_tokens_than_the_encoder_takes(run, dataset, encoder, tmp_path):
    long = Passage("1", "cat", "The cat was red. " * 300)
    words = ["--dataset", dataset, "--model", f"hf:{encoder}", "--out", tmp_path / "cross"]
    code, _, told = run("train", "relevance", *words, "--set", "max_tokens=4000")
    assert code == 0, told
    assert "| max_tokens | 128 |" in (tmp_path / "cross" / "README.md").read_text()
    assert len(scores(load_reranker(f"cross-encoder:{tmp_path / 'cross'}"), passages=[long])) == 1


def test_torch_runs_it_if_a_device_is_named(reranker):
    assert not isinstance(load_reranker(f"cross-encoder:{reranker}?device=cpu"), OnnxCrossEncoder)


def test_a_dry_run(run, dataset, encoder, tmp_path):
    code, shown, told = command(run, dataset, encoder, tmp_path / "cross", "--dry-run")
    assert (code, told) == (0, "")
    assert "jsonl relevance " in " ".join(shown.split())
    assert not (tmp_path / "cross").exists()


def test_a_stopped_training_goes_on(run, dataset, encoder, reranker, tmp_path, monkeypatch):
    step = Trainer._train_step

    def stopped(self, number):
        if number == 3:
            raise KeyboardInterrupt
        step(self, number)
        self._save()

    monkeypatch.setattr(Trainer, "_train_step", stopped)
    out = tmp_path / "cross"
    code, _, _ = command(run, dataset, encoder, out)
    assert code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["cross.training"]
    monkeypatch.setattr(Trainer, "_train_step", step)
    code, _, told = command(run, dataset, encoder, out, "--set", "learning_rate=1e-3")
    assert code == 2
    assert "was started with learning_rate" in told
    code, _, told = command(run, dataset, encoder, out)
    assert code == 0, told
    assert "continuing after step 3/" in told
    pair = [load_with_torch(str(folder), device="cpu") for folder in (out, reranker)]
    assert scores(pair[0]) == near(scores(pair[1]), "same steps again", "float32")


def test_a_rate_beyond_reason_stops_it(run, dataset, encoder, tmp_path):
    code, _, told = command(run, dataset, encoder, tmp_path / "cross", "--set", "learning_rate=1e30")
    assert code == 1
    assert "is not finite" in " ".join(told.split())


def test_models_that_can_not_be_trained(run, dataset, tmp_path):
    for model, message in [
        ("bundled:base", "can't be trained: start from bundled, or from hf:NAME"),
        ("hf:/nowhere", "does not exist"),
    ]:
        words = ["--dataset", dataset, "--model", model, "--out", tmp_path / "cross", *TINY]
        code, _, told = run("train", "relevance", *words)
        assert code == 2
        assert message in " ".join(told.split())
    three = save_cross_encoder(tmp_path / "three", num_labels=3)
    with pytest.raises(ModelSpecError):
        load_base(f"hf:{three}", RelevanceSettings())


def test_each_input_of_the_exported_model_is_read(reranker):
    for folder in (reranker, RERANKER):
        graph = onnx.load(folder / "model.onnx").graph
        readers = {
            each.name: {node.op_type for node in graph.node if each.name in node.input}
            for each in graph.input
        }
        assert readers.pop("attention_mask")
        assert "input_ids" in readers
        assert all("Gather" in kinds for kinds in readers.values()), "the embeddings are looked up"


def test_the_bundled_encoder_is_a_base():
    base = load_base("bundled", RelevanceSettings())
    assert base.module.num_labels == 1
    again = load_base("bundled", RelevanceSettings())
    assert torch.equal(base.module.classifier.weight, again.module.classifier.weight), "the seed decides"
    pooling = base.module.bert.pooler.dense
    assert torch.equal(pooling.weight, torch.eye(pooling.in_features)), "its own weights are almost nothing"


def test_a_cross_encoder_keeps_its_last_layers(tmp_path):
    folder = save_cross_encoder(tmp_path / "cross")
    kept, plain = (
        module.state_dict()
        for module in (
            load_base(f"hf:{folder}", RelevanceSettings()).module,
            BertForSequenceClassification.from_pretrained(folder),
        )
    )
    assert all(torch.equal(kept[name], weights) for name, weights in plain.items())


def test_no_evidence_at_all(run, encoder, tmp_path):
    path = tmp_path / "bare.jsonl"
    path.write_text(json.dumps({"id": "q", "question": "Which?", "answers": ["red"]}))
    code, _, told = command(run, f"jsonl:{path}", encoder, tmp_path / "cross")
    assert code == 2
    assert "no pairs to train on" in " ".join(told.split())
    with pytest.raises(InputError):
        load_base("gguf:x", RelevanceSettings())
