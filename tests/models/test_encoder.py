"""Test encoders by name: tiny ones of both kinds that `hf:` takes."""

import asyncio
import json
import re
import shutil
import sys

import pytest
from tests.contracts.encoder_contract import ThreadedEncoderContract
from tests.models.tiny import byte_level_tokenizer, save_tiny
from tests.models.tiny_encoder import PROMPTS, save_encoder, save_plain
from tests.tolerances import assert_near

from askance.configuration.build import load_encoder, open_retriever
from askance.core.errors import BadIndex, InputError, MissingExtra, ModelFailure, ModelSpecError, UnknownName
from askance.core.installing import install_line
from askance.core.notes import noted
from askance.models.hf import prefixes
from askance.retrieval.index.build import build_index


def embed(encoder, *texts, kind="text"):
    return asyncio.run(encoder.embed(texts, kind))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def encoders(folder, tmp_path_factory):
    """The encoders by name; `plain` has no modules.json, and gives the mean of its tokens."""
    plain = save_plain(tmp_path_factory.mktemp("plain"))
    specs = {"tiny": f"hf:{folder}?device=cpu", "plain": f"hf:{plain}"}
    specs["sgpt"] = f"sgpt:{save_tiny(tmp_path_factory.mktemp('sgpt'), 'gpt2', byte_level_tokenizer())}"
    return {name: load_encoder(spec) for name, spec in specs.items()}


@pytest.fixture
def tiny(encoders):
    return encoders["tiny"]


class TestAdapters(ThreadedEncoderContract):
    operation = "encoder"

    @pytest.fixture(params=["tiny", "plain", "sgpt"])
    def encoder(self, request, encoders):
        return encoders[request.param]


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


E5 = {"query": "query: ", "passage": "passage: ", "text": "query: "}
INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "


@pytest.mark.parametrize(
    ("name", "options", "prefixes"),
    [
        ("e5-base-v2", "", E5),
        ("models--intfloat--multilingual-e5-large/snapshots/0a1b", "", E5),
        ("e5-mistral-7b-instruct", "", {"query": INSTRUCTION}),
        ("bge-large-en-v1.5", "", {"query": "Represent this sentence for searching relevant passages: "}),
        ("bge-small-zh", "", {"query": "为这个句子生成表示以用于检索相关文章："}),
        ("bge-m3", "", {}),
        ("bge-large-zh-noinstruct", "", {}),
        ("base5-small", "", {}),
        ("e5-base", "?passage=Text: &query=none", {"passage": "Text: ", "query": ""}),
        ("other", "?query=ask: &text=say: ", {"query": "ask: ", "text": "say: "}),
    ],
)  # fmt: skip
def test_prefixes_by_family_and_by_options(name, options, prefixes, tiny, tmp_path):
    notes = []
    with noted(lambda kind, text: notes.append(text)):
        encoder = load_encoder(f"hf:{save_encoder(tmp_path / name)}{options}")
    assert notes == []
    for kind in ("query", "passage", "text"):
        expected = embed(tiny, f"{prefixes.get(kind, '')}the river")
        assert_near(embed(encoder, "the river", kind=kind), expected, "encoder")
    again = load_encoder(encoder.name)  # as an index does
    assert (again.name, again.fingerprint) == (encoder.name, encoder.fingerprint)
    assert (encoder.fingerprint == tiny.fingerprint) is (not any(prefixes.values()))


def test_the_family_in_the_configuration_and_families_without_known_prefixes(tmp_path):
    def loaded(name, named_in_config, prompts=False):
        notes, folder = [], save_encoder(tmp_path / name, prompts=prompts)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"_name_or_path": named_in_config}))
        with noted(lambda kind, text: notes.append(text)):
            return load_encoder(f"hf:{folder}").name.removeprefix(f"hf:{folder}"), notes

    assert loaded("tuned", "intfloat/e5-small") == ("?query=query: &passage=passage: &text=query: ", [])
    assert loaded("bge-large-prompted", "", prompts=True) == ("", []), "the model's own files win"
    name, (note,) = loaded("bge-multilingual-gemma2", "")
    assert name == ""
    assert "trained with prefixes, but its files have none" in note
    assert loaded("my-tuned", "BAAI/bge-en-icl")[1]
    name, notes = loaded("my-tuned-base", "BAAI/bge-base-en-icl")
    assert (name, len(notes)) == ("", 1)


def test_an_index_keeps_the_prefixes_and_refuses_others(folder, tmp_path):
    documents, index = tmp_path / "docs.jsonl", tmp_path / "index"
    documents.write_text('{"text": "The river Trave."}\n{"text": "A red ball."}\n', encoding="utf-8")
    build_index([documents], index, encoder=load_encoder(f"hf:{folder}?query=ask: &passage=Text: "))
    retriever = open_retriever(index, "dense")
    assert retriever.encoder.name == f"hf:{folder}?query=ask: &passage=Text: "
    assert len(asyncio.run(retriever.search("river", 2))) == 2
    built = re.escape(f"was built with the encoder hf:{folder}?query=ask: &passage=Text:  (32 dim")
    with pytest.raises(
        BadIndex, match=rf"{built}.*not with the encoder hf:{re.escape(str(folder))} \(finger"
    ):
        open_retriever(index, "dense", encoder=load_encoder(f"hf:{folder}"))


def test_an_index_from_before_the_prefixes_of_its_encoder_were_known(tmp_path, monkeypatch):
    documents, index = tmp_path / "docs.jsonl", tmp_path / "index"
    documents.write_text('{"text": "The river Trave."}\n', encoding="utf-8")
    spec = f"hf:{save_encoder(tmp_path / 'e5-base')}"
    with monkeypatch.context() as before:
        before.setattr(prefixes, "_known_prefixes", lambda folder: {})
        build_index([documents], index, encoder=load_encoder(spec))
    remedy = re.escape(f"built without prefixes for queries and passages, name {spec}?query=none.")
    with pytest.raises(BadIndex, match=remedy):
        open_retriever(index, "dense")
    with pytest.raises(BadIndex, match=remedy):
        build_index([documents], index, encoder=load_encoder(spec))
    assert open_retriever(index, "dense", encoder=load_encoder(f"{spec}?query=none"))
    other = load_encoder(f"hf:{save_encoder(tmp_path / 'other', seed=1)}")
    with pytest.raises(BadIndex, match=r"with the latter\.$"):
        open_retriever(index, "dense", encoder=other)


def test_the_prompt_of_passages_under_another_name(tiny, tmp_path):
    folder = save_encoder(tmp_path)
    prompts = {"query": "query: ", "passage": "passage: "}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    expected = embed(tiny, "passage: the river")
    assert_near(embed(load_encoder(f"hf:{folder}"), "the river", kind="passage"), expected, "encoder")


def test_sgpt_puts_brackets_around_tokens_and_weights_by_position(encoders, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    encoder = encoders["sgpt"]
    folder = encoder.name.removeprefix("sgpt:")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    module = transformers.AutoModel.from_pretrained(folder).eval()
    text = "[the river?"  # "?]" and "[[" must not become one token
    for kind, brackets in (("query", "[]"), ("passage", "{}"), ("text", ("", ""))):
        ids = [id for part in (brackets[0], text, brackets[1]) for id in tokenizer(part)["input_ids"]]
        with torch.no_grad():
            states = module(input_ids=torch.tensor([ids])).last_hidden_state[0]
        weights = torch.arange(1, len(ids) + 1).unsqueeze(1)
        mean = (states * weights).sum(0) / weights.sum()
        longer = "a longer text in the same batch, so that this one is padded"
        vectors = embed(encoder, text, longer, kind=kind)
        assert_near(vectors[0], (mean / mean.norm()).numpy(), "encoder")
    head = "word " * 600
    assert_near(*embed(encoder, head + "cat", head + "dog", kind="query"), "encoder")
    assert load_encoder(encoder.name).fingerprint == encoder.fingerprint
    assert load_encoder(f"hf:{save_encoder(tmp_path)}").fingerprint not in encoder.fingerprint


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
        ("hf:x?query=", InputError, "give query one value"),
        ("hf:x?query<a", InputError, "give query<a one value"),
        ("sgpt:x?query=a", UnknownName, "unknown encoder option 'query'"),
        ("sgpt:", ModelSpecError, "names no model"),
        ("hf:x?device=gpu9", ModelSpecError, "device 'gpu9' can't be used"),
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
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=f"'sentence-transformers', .*{re.escape(install_line('dense'))}"):
        load_encoder(f"hf:{folder}")
