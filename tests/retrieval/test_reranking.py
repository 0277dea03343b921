"""Rerankers: what they reorder, how they are named, and which mistakes they may make."""

import asyncio
import json
import re
import sys

import pytest
from tests.contracts.retriever_contract import PASSAGES, QUERY, RetrieverContract
from tests.models.tiny_cross_encoder import save_cross_encoder
from tests.models.tiny_encoder import save_plain
from tests.retrieval.vectors import search

from askance.configuration.build import load_reranker, open_retriever, with_reranker
from askance.configuration.settings import EngineConfig
from askance.core.errors import (
    InputError,
    MissingExtra,
    ModelFailure,
    ModelSpecError,
    RetrieverFailure,
    UnknownName,
)
from askance.core.extensions import implements
from askance.core.installing import install_line
from askance.core.ports import Reranker
from askance.core.types import Passage
from askance.retrieval.reranking import RerankedRetriever
from askance.retrieval.scripted import ScriptedRetriever

MANY = tuple(Passage(f"{number:02}", "", f"river {number}", "rivers", 0, 8) for number in range(30))


class LastFirst:
    """Scores a passage by the number in its id, so that the last one is the best."""

    name = fingerprint = "last first"

    def __init__(self, scores=None):
        self.asked = []
        self.scores = scores

    async def score(self, query, passages):
        self.asked.append((query, [passage.id for passage in passages]))
        if isinstance(self.scores, Exception):
            raise self.scores
        return [float(passage.id) for passage in passages] if self.scores is None else self.scores


@implements(Reranker)
class ByLength:
    name = fingerprint = "by length"

    def __init__(self, sign="1"):
        self.sign = int(sign)

    async def score(self, query, passages):
        return [self.sign * len(passage.text) for passage in passages]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_cross_encoder(tmp_path_factory.mktemp("cross"))


@pytest.fixture(scope="module")
def cross_encoder(folder):
    return load_reranker(f"cross-encoder:{folder}?device=cpu")


class TestCrossEncoder(RetrieverContract):
    @pytest.fixture
    def retriever(self, cross_encoder):
        return RerankedRetriever(ScriptedRetriever(PASSAGES), cross_encoder)


def ids(hits):
    return [hit.passage.id for hit in hits]


def test_the_candidates_are_reordered_and_cut_to_k():
    reranker = LastFirst()
    retriever = RerankedRetriever(ScriptedRetriever(MANY), reranker, candidates=10)
    hits = search(retriever, "river", 3)
    assert [(hit.passage.id, hit.rank, hit.score) for hit in hits] == [
        ("09", 1, 9.0), ("08", 2, 8.0), ("07", 3, 7.0)
    ]  # fmt: skip
    assert reranker.asked == [("river", first := [passage.id for passage in MANY[:10]])]
    assert ids(search(retriever, "river", 12)) == [passage.id for passage in MANY[11::-1]]
    assert ids(search(retriever, "river", 2, frozenset({"03", "04"}))) == ["11", "10"]
    assert reranker.asked[-1][1] == [*first[:3], *first[5:], "10", "11"]
    reranker = LastFirst()
    assert search(RerankedRetriever(ScriptedRetriever(()), reranker), "river", 2) == ()
    assert reranker.asked == []
    retriever = RerankedRetriever(ScriptedRetriever(MANY[::-1]), LastFirst([1.0] * 30))
    assert ids(search(retriever, "river", 30)) == [passage.id for passage in MANY], "equal scores, by id"
    first = ScriptedRetriever(MANY[:3])
    hits = search(RerankedRetriever(first, LastFirst(), retriever_weight=2.0), "river", 3)
    expected = {hit.passage.id: float(hit.passage.id) + 2 * hit.score for hit in search(first, "river", 3)}
    assert [(hit.passage.id, hit.score) for hit in hits] == sorted(
        expected.items(), key=lambda each: -each[1]
    ), "the score of the retriever may count, too"


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        (ModelFailure("no memory"), "could not be searched for 'river': no memory"),
        ([1.0], r"the reranker last first gave 1 scores for 2 passages.*use another one"),
        ([1.0, float("nan")], "not finite numbers: use another one"),
    ],
)
def test_a_reranker_that_breaks_is_a_failure_of_the_retriever(scores, told):
    with pytest.raises(RetrieverFailure, match=told):
        search(RerankedRetriever(ScriptedRetriever(MANY[:2]), LastFirst(scores)), "river", 1)


def test_name_and_fingerprint_tell_of_both():
    inner = ScriptedRetriever(MANY)
    assert RerankedRetriever(inner, LastFirst()).fingerprint == ""
    inner.fingerprint = "rivers"
    reranked = RerankedRetriever(inner, LastFirst())
    assert reranked.name == "scripted, the first 50 reranked by last first"
    others = RerankedRetriever(inner, ByLength()), RerankedRetriever(inner, LastFirst(), 40)
    weighted = RerankedRetriever(inner, LastFirst(), retriever_weight=0.5)
    assert len({each.fingerprint for each in (inner, reranked, weighted, *others)}) == 5
    assert "rivers" in reranked.fingerprint
    assert EngineConfig(retriever="hybrid", rerank="m:C").retriever_spec == "hybrid, reranked by m:C"
    assert EngineConfig(rerank=ByLength()).retriever_spec == "bm25, reranked by by length"


@pytest.mark.parametrize(
    ("reranker", "candidates", "weight"),
    [
        ("bundled", 10, 1),
        ("bundled?retriever_weight=0&candidates=7", 7, 0),
        (f"{__name__}:ByLength", 50, 0),
        (f"{__name__}:ByLength?sign=-1&candidates=7", 7, 0),
        (ByLength(), 50, 0),
    ],
)
def test_the_bundled_reranker_has_its_own_defaults(reranker, candidates, weight):
    reranked = with_reranker(ScriptedRetriever(MANY), reranker)
    assert (reranked.candidates, reranked.retriever_weight) == (candidates, weight)


def test_a_cross_encoder_by_name_on_the_command_line(sample_index, folder, run):
    found = []
    for options in (["--rerank", f"cross-encoder:{folder}?candidates=20"], []):
        words = ("search", "Which river?", "-k", "20", "--json", "--index", sample_index, *options)
        code, out, error = run(*words)
        assert code == 0, error
        found.append([hit["passage"]["id"] for hit in json.loads(out)["hits"]])
    assert found[0] != found[1]
    assert set(found[0]) == set(found[1])


@pytest.mark.parametrize(
    ("told", "error", "message"),
    [
        ("crossencoder:x", UnknownName, "unknown reranker 'crossencoder:x'.*cross-encoder"),
        ("cross-encoder", InputError, "names no model: write cross-encoder:NAME"),
        ("cross-encoder:/nowhere", ModelSpecError, "'/nowhere' does not exist: check the path"),
        ("cross-encoder:{0}?dtype=int4", InputError, "unknown reranker option 'dtype'"),
        ("cross-encoder:{0}?candidates=0", InputError, "candidates='0' .*whole number from 1"),
        ("cross-encoder:{0}?candidates=many", InputError, "candidates='many'"),
        ("cross-encoder:{0}?retriever_weight=-1", InputError, "retriever_weight='-1' .*number from 0"),
        ("cross-encoder:{0}?retriever_weight=nan", InputError, "retriever_weight='nan'"),
        ("cross-encoder:{0}?retriever_weight=much", InputError, "retriever_weight='much'"),
        ("tests.retrieval.test_reranking:MANY", InputError, "is no reranker: it lacks name, finger"),
    ],
)
def test_rerankers_that_can_not_be_used(sample_index, folder, told, error, message):
    with pytest.raises(error, match=message) as caught:
        open_retriever(sample_index, reranker=told.format(folder))
    assert caught.value.setting == "rerank"


def test_what_is_no_reranker_no_cross_encoder_or_no_retriever(tmp_path, sample_index):
    plain, three = save_plain(tmp_path / "plain"), save_cross_encoder(tmp_path / "three", num_labels=3)
    for refused, error, message in (
        (lambda: EngineConfig(rerank=MANY), InputError, "is no reranker: it lacks"),
        (lambda: EngineConfig(rerank=3), InputError, "expected the name of a reranker"),
        (lambda: load_reranker(f"cross-encoder:{plain}"), ModelSpecError,
         r"is no cross-encoder, but BertModel with .*BAAI/bge-reranker"),
        (lambda: load_reranker(f"cross-encoder:{three}"), ModelSpecError,
         r"is no cross-encoder, .* with 3 labels"),
        (lambda: open_retriever(sample_index, "bm25?rerank=m:C"), UnknownName, "unknown retriever option"),
        (lambda: open_retriever(sample_index, "bm25:folder"), UnknownName, "unknown retriever '"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            refused()


def test_a_cross_encoder_scores_pairs_and_may_break(folder, cross_encoder, tmp_path, monkeypatch):
    assert len(set(asyncio.run(cross_encoder.score(QUERY, PASSAGES)))) == 3
    assert cross_encoder.name == f"cross-encoder:{folder}"
    assert load_reranker(f"cross-encoder:{folder}").fingerprint == cross_encoder.fingerprint
    other = load_reranker(f"cross-encoder:{save_cross_encoder(tmp_path, seed=1)}")
    assert other.fingerprint != cross_encoder.fingerprint

    def broken(*given, **named):
        raise RuntimeError("out of memory\nand so on")

    monkeypatch.setattr(cross_encoder._module, "predict", broken)
    with pytest.raises(ModelFailure, match=rf"the reranker {cross_encoder.name} broke: out of memory\."):
        asyncio.run(cross_encoder.score("a", PASSAGES))


def test_the_bundled_reranker_prefers_the_passage_with_the_answer():
    reranker, names = load_reranker("bundled"), {"France": "Paris", "Italy": "Rome"}
    passages = [Passage(city, city, f"{city} is the capital of {land}.") for land, city in names.items()]
    for number, land in enumerate(names):
        scores = asyncio.run(reranker.score(f"Which city is the capital of {land}?", passages))
        assert scores[number] > scores[1 - number]
    assert reranker.name == load_reranker("cross-encoder:bundled").name == "cross-encoder:bundled"
    assert reranker.fingerprint == load_reranker("cross-encoder:bundled").fingerprint


def test_what_a_cross_encoder_needs_is_named(folder, monkeypatch):
    with pytest.raises(ModelSpecError, match="bundled cross-encoder can't run on device=cuda"):
        load_reranker("bundled?device=cuda")
    monkeypatch.setattr("askance.models.loaders.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="the reranker bundled needs the package 'onnxruntime'"):
        load_reranker("bundled")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=f"'sentence-transformers', .*{re.escape(install_line('dense'))}"):
        load_reranker(f"cross-encoder:{folder}")
