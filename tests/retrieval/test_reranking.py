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

from askance.configuration.build import (
    encodes,
    load_reranker,
    open_retriever,
    with_reranker,
)
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


class TestReranked(RetrieverContract):
    @pytest.fixture
    def retriever(self):
        return RerankedRetriever(ScriptedRetriever(PASSAGES), ByLength())


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
    assert ids(hits) == ["09", "08", "07"]
    assert [(hit.rank, hit.score) for hit in hits] == [(1, 9.0), (2, 8.0), (3, 7.0)]
    assert reranker.asked == [("river", [passage.id for passage in MANY[:10]])]
    assert ids(search(retriever, "river", 12)) == [passage.id for passage in MANY[11::-1]]


def test_the_score_of_the_retriever_may_count_too():
    first = ScriptedRetriever(MANY[:3])
    hits = search(RerankedRetriever(first, LastFirst(), retriever_weight=2.0), "river", 3)
    expected = {hit.passage.id: float(hit.passage.id) + 2 * hit.score for hit in search(first, "river", 3)}
    assert {hit.passage.id: hit.score for hit in hits} == expected
    assert [hit.score for hit in hits] == sorted(expected.values(), reverse=True)


def test_what_is_excluded_is_no_candidate():
    reranker = LastFirst()
    retriever = RerankedRetriever(ScriptedRetriever(MANY), reranker, candidates=5)
    assert ids(search(retriever, "river", 2, frozenset({"03", "04"}))) == ["06", "05"]
    assert reranker.asked[0][1] == ["00", "01", "02", "05", "06"]


def test_a_reranker_is_not_asked_where_nothing_is_found():
    reranker = LastFirst()
    assert search(RerankedRetriever(ScriptedRetriever(()), reranker), "river", 2) == ()
    assert reranker.asked == []


def test_equal_scores_come_in_the_order_of_ids():
    retriever = RerankedRetriever(ScriptedRetriever(MANY[::-1]), LastFirst([1.0] * 30))
    assert ids(search(retriever, "river", 30)) == [passage.id for passage in MANY]


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


def test_the_retriever_and_its_reranker_are_described_together():
    assert EngineConfig(retriever="hybrid", rerank="m:C").retriever_spec == "hybrid, reranked by m:C"
    assert EngineConfig(rerank=ByLength()).retriever_spec == "bm25, reranked by by length"


def test_the_bundled_reranker_has_its_own_defaults():
    inner = ScriptedRetriever(MANY)
    assert with_reranker(inner, "bundled").candidates == 10
    assert with_reranker(inner, "bundled").retriever_weight == 1
    changed = with_reranker(inner, "bundled?retriever_weight=0&candidates=7")
    assert (changed.candidates, changed.retriever_weight) == (7, 0)
    other = with_reranker(inner, f"{__name__}:ByLength")
    assert (other.candidates, other.retriever_weight) == (50, 0)
    assert with_reranker(inner, ByLength()).candidates == 50


def test_a_reranker_has_to_have_the_members_of_its_port():
    with pytest.raises(InputError, match="is no reranker: it lacks"):
        EngineConfig(rerank=MANY)
    with pytest.raises(InputError, match="expected the name of a reranker"):
        EngineConfig(rerank=3)


def test_only_some_retrievers_use_an_encoder():
    assert encodes("hybrid")
    assert not encodes("bm25")
    assert not encodes("m:C")


def test_a_cross_encoder_by_name_on_the_command_line(sample_index, folder, run):
    found = []
    for options in (["--rerank", f"cross-encoder:{folder}?candidates=20"], []):
        code, out, error = run(
            "search", "Which river?", "-k", "20", "--json", "--index", sample_index, *options
        )
        assert code == 0, error
        found.append([hit["passage"]["id"] for hit in json.loads(out)["hits"]])
    assert found[0] != found[1]
    assert set(found[0]) == set(found[1])


def test_a_class_of_one_s_own_by_name(sample_index):
    retriever = open_retriever(sample_index, reranker=f"{__name__}:ByLength?sign=-1&candidates=7")
    assert (retriever.candidates, retriever.reranker.sign) == (7, -1)
    lengths = [len(hit.passage.text) for hit in search(retriever, "Which river?", 5)]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize("kind", ["bm25?rerank=m:C", "bm25?candidates=9", "bm25:folder"])
def test_a_retriever_names_no_reranker_and_no_folder(sample_index, kind):
    with pytest.raises(UnknownName, match=r"unknown retriever (option )?'"):
        open_retriever(sample_index, kind)


@pytest.mark.parametrize(
    ("told", "error", "message"),
    [
        ("crossencoder:x", UnknownName, "unknown reranker 'crossencoder:x'.*cross-encoder"),
        ("cross-encoder", InputError, "names no model: write cross-encoder:NAME or cross-encoder:DIR"),
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


def test_models_that_are_no_cross_encoders(tmp_path):
    plain = save_plain(tmp_path / "plain")
    with pytest.raises(ModelSpecError, match=r"is no cross-encoder, but BertModel with .*BAAI/bge-reranker"):
        load_reranker(f"cross-encoder:{plain}")
    three = save_cross_encoder(tmp_path / "three", num_labels=3)
    with pytest.raises(ModelSpecError, match=r"is no cross-encoder, .* with 3 labels"):
        load_reranker(f"cross-encoder:{three}")


def test_a_cross_encoder_scores_pairs(folder, cross_encoder, tmp_path):
    assert len(set(asyncio.run(cross_encoder.score(QUERY, PASSAGES)))) == 3
    assert cross_encoder.name == f"cross-encoder:{folder}"
    assert load_reranker(f"cross-encoder:{folder}").fingerprint == cross_encoder.fingerprint
    other = load_reranker(f"cross-encoder:{save_cross_encoder(tmp_path, seed=1)}")
    assert other.fingerprint != cross_encoder.fingerprint


def test_a_cross_encoder_that_breaks(cross_encoder, monkeypatch):
    def broken(*given, **named):
        raise RuntimeError("out of memory\nand so on")

    monkeypatch.setattr(cross_encoder._module, "predict", broken)
    with pytest.raises(ModelFailure, match=rf"the reranker {cross_encoder.name} broke: out of memory\."):
        asyncio.run(cross_encoder.score("a", PASSAGES))


def test_the_bundled_reranker_prefers_the_passage_with_the_answer():
    paris = Passage("1", "Paris", "Paris is the capital of France, and lies on the Seine.")
    rome = Passage("2", "Rome", "Rome is the capital of Italy.")
    reranker = load_reranker("bundled")
    scores = asyncio.run(reranker.score("Which city is the capital of France?", [rome, paris]))
    assert scores[1] > scores[0]
    scores = asyncio.run(reranker.score("Which city is the capital of Italy?", [rome, paris]))
    assert scores[0] > scores[1], "the question decides"
    assert reranker.name == load_reranker("cross-encoder:bundled").name == "cross-encoder:bundled"
    assert reranker.fingerprint == load_reranker("cross-encoder:bundled").fingerprint


def test_the_bundled_reranker_runs_on_the_processor_alone(monkeypatch):
    with pytest.raises(ModelSpecError, match="bundled cross-encoder can't run on device=cuda"):
        load_reranker("bundled?device=cuda")
    monkeypatch.setattr("askance.models.pair_scorer.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="the reranker bundled needs the package 'onnxruntime'"):
        load_reranker("bundled")


def test_a_missing_package_is_named_with_its_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=f"'sentence-transformers', .*{re.escape(install_line('dense'))}"):
        load_reranker(f"cross-encoder:{folder}")
