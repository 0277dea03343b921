import asyncio
import json
import shutil
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contracts.retriever_contract import PASSAGES, RetrieverContract
from tests.retrieval.vectors import FixedEncoder, document_table_path, files_of_vectors, search
from tests.tolerances import near

from askance.core.errors import BadIndex, InputError, ModelFailure, RetrieverFailure
from askance.models.scripted import ScriptedEncoder
from askance.retrieval import ranking
from askance.retrieval.bm25 import open_index
from askance.retrieval.dense import HybridRetriever, open_dense, open_hybrid
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import VECTORS, generation_folder
from askance.retrieval.scripted import ScriptedRetriever


@pytest.fixture(scope="module")
def contract_index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dense")
    rows = [{"id": each.id, "title": each.title, "text": each.text} for each in PASSAGES]
    (folder / "rivers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        build_index([folder.joinpath("rivers.jsonl").relative_to(folder)], folder / "index",
                    encoder=ScriptedEncoder())  # fmt: skip
    return folder / "index"


class TestDense(RetrieverContract):
    @pytest.fixture
    def retriever(self, contract_index):
        return open_dense(contract_index, ScriptedEncoder())


class TestDenseInThreads(TestDense):
    @pytest.fixture(autouse=True)
    def always_in_threads(self, monkeypatch):
        monkeypatch.setattr(ranking, "_MIN_STEPS_FOR_THREAD", 0)


class TestHybrid(RetrieverContract):
    @pytest.fixture
    def retriever(self, contract_index):
        return open_hybrid(contract_index, ScriptedEncoder())


@pytest.fixture
def index(tmp_path, write_rows):
    rows = [(f"{number:03}", f"word number {number} of many") for number in range(60)]
    build_index([write_rows(tmp_path / "rows.jsonl", *rows)], tmp_path / "index", encoder=ScriptedEncoder())
    return tmp_path / "index"


def test_names_and_fingerprints(index):
    encoder = ScriptedEncoder()
    retrievers = [open_index(index), open_dense(index, encoder), open_hybrid(index, encoder)]
    assert retrievers[1].name == f"dense {index} (60 passages, scripted)"
    assert retrievers[2].name == f"hybrid of {retrievers[0].name} and {retrievers[1].name}"
    assert len({each.fingerprint for each in retrievers}) == 3
    assert encoder.fingerprint in retrievers[1].fingerprint
    assert encoder.fingerprint in retrievers[2].fingerprint
    assert HybridRetriever(retrievers[0], ScriptedRetriever()).fingerprint == ""


WORDS = st.lists(st.sampled_from("rhine elbe spree main".split()), min_size=1, max_size=4).map(" ".join)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=30), min_size=1, max_size=3),
    WORDS,
    st.integers(1, 40),
)
def test_finds_what_comparing_with_every_passage_finds(tmp_path_factory, write_rows, versions, query, k):
    """This holds with several segments and dead rows, too: each version replaces the one before."""
    folder = tmp_path_factory.mktemp("exact")
    encoder = ScriptedEncoder(8)
    for texts in versions:
        rows = [(f"{number:03}", text) for number, text in enumerate(texts)]
        build_index([write_rows(folder / "rows.jsonl", *rows)], folder / "index", encoder=encoder)
    retriever = open_dense(folder / "index", encoder)
    scores = asyncio.run(encoder.embed(versions[-1])) @ asyncio.run(encoder.embed([query]))[0]
    by_score = sorted(range(len(scores)), key=lambda at: (-float(f"{scores[at]:.4g}"), at))
    hits = search(retriever, query, k)
    assert len(hits) == min(k, len(scores))
    best = [float(scores[at]) for at in by_score[:k]]
    assert [hit.score for hit in hits] == near(best, "in order", "4 digits")
    for hit in hits:
        assert hit.passage.text == versions[-1][int(hit.passage.id)]
        assert hit.score == near(float(scores[int(hit.passage.id)]), "unit vector", "float32")


def test_equal_scores_come_in_the_order_of_ids(tmp_path, write_rows):
    ids = [f"{number:04}" for number in np.random.default_rng(0).permutation(300)]
    source = write_rows(tmp_path / "rows.jsonl", *((id, "the same river") for id in ids))
    build_index([source], tmp_path / "index", encoder=ScriptedEncoder())
    retriever = open_dense(tmp_path / "index", ScriptedEncoder())
    for k in (1, 7, 100, 299, 300, 301):
        assert [hit.passage.id for hit in search(retriever, "river", k)] == sorted(ids)[:k]


def test_passages_of_long_documents_are_found(tmp_path):
    (tmp_path / "a.txt").write_text(" ".join(f"word{number}" for number in range(950)))
    (tmp_path / "b#7.txt").write_text("word 950")
    build_index([tmp_path / "a.txt", tmp_path / "b#7.txt"], tmp_path / "index", encoder=ScriptedEncoder(64))
    retriever = open_dense(tmp_path / "index", ScriptedEncoder(64))
    hits = search(retriever, " ".join(f"word{number}" for number in range(300, 400)), 3)
    assert hits[0].passage.id == "a.txt#4"
    assert hits[0].passage.text.split()[0] == "word300"
    assert len(search(retriever, "word", 99)) == 11


def test_an_open_index_stays_as_it_is_when_a_build_replaces_it(index, tmp_path, write_rows):
    retriever = open_dense(index, ScriptedEncoder())
    before = search(retriever, "number 7", 5)
    build_index([write_rows(tmp_path / "rows.jsonl", ("x", "new"))], index, encoder=ScriptedEncoder())
    assert not (index / "generation-000001").exists()
    assert search(retriever, "number 7", 5) == before
    assert [hit.passage.text for hit in search(open_dense(index, ScriptedEncoder()), "x")] == ["new"]


def test_an_index_without_vectors(tmp_path, write_rows):
    build_index([write_rows(tmp_path / "rows.jsonl", ("a", "one"))], tmp_path / "index")
    told = r"has no vectors: make them with `askance index DOCS --out .*index --encoder bundled`"
    for open_ in (open_dense, open_hybrid):
        with pytest.raises(BadIndex, match=told):
            open_(tmp_path / "index", ScriptedEncoder())


def test_an_encoder_of_other_dimensions(index):
    with pytest.raises(
        BadIndex,
        match=r"built with the encoder scripted \(16 dimensions, .*, not with the .*another folder",
    ):
        open_dense(index, ScriptedEncoder(8))


class Turncoat(ScriptedEncoder):
    """Claims to be the encoder of 16 dimensions, but has fewer."""

    def __init__(self):
        super().__init__(8)
        self.fingerprint = ScriptedEncoder().fingerprint


def test_encoders_that_break_while_searching(index):
    broken = FixedEncoder(np.ones(16) / 4)
    broken.fingerprint = ScriptedEncoder().fingerprint
    retriever = open_dense(index, broken)
    assert len(search(retriever, "word", 3)) == 3
    for row in (np.zeros(16), np.full(16, np.nan), np.full(16, np.inf), np.ones(16)):
        broken.row = row
        with pytest.raises(RetrieverFailure, match=r"is not a vector of length 1 .*use another encoder"):
            search(retriever, "word", 3)
    with pytest.raises(RetrieverFailure, match=r"the shape \(1, 8\) where \(1, 16\) was due"):
        search(open_dense(index, Turncoat()), "word", 3)

    async def fail(texts, kind="text"):
        raise ModelFailure("no memory")

    broken.embed = fail
    with pytest.raises(RetrieverFailure, match="could not be searched for 'word': no memory"):
        search(retriever, "word", 3)


@pytest.mark.parametrize("damage", ["lost", "short", "nan", "zero", "ledger", "table"])
def test_damaged_vectors(index, damage):
    (name,) = files_of_vectors(index)
    path = generation_folder(index, 1) / VECTORS / name
    rows = np.fromfile(path, dtype="<f4").reshape(60, 16)
    rows[17] = np.nan if damage == "nan" else 0
    broken_row = "row 17 is not a vector"
    told = {"nan": broken_row, "zero": broken_row, "short": "too few", "lost": "0 bytes"}
    if damage == "lost":
        path.unlink()
    elif damage == "short":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "ledger":
        document_table_path(index).write_text("no database, whatever its name " * 99)
    elif damage == "table":
        (index / "empty").write_bytes(b"")
        shutil.copy(index / "empty", document_table_path(index))
    else:
        rows.tofile(path)
    with pytest.raises(BadIndex, match=rf"can't be opened \(.*{told.get(damage, '')}.*build the index again"):
        open_dense(index, ScriptedEncoder())
    assert len(search(open_index(index), "word", 3)) == 3


def test_many_threads_search_one_index(index):
    retriever = open_dense(index, ScriptedEncoder())
    expected = search(retriever, "number 5", 5)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(search(retriever, "number 5", 5))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_hybrid_finds_what_either_finds():
    first, second = ScriptedRetriever(PASSAGES[:2]), ScriptedRetriever(PASSAGES[1:])
    hits = search(HybridRetriever(first, second), "river", 3)
    assert [hit.passage.id for hit in hits] == ["elbe", "rhine", "spree"]
    assert [hit.score for hit in hits] == [1 / 61 + 1 / 62, 1 / 61, 1 / 62]
    assert [hit.rank for hit in hits] == [1, 2, 3]
    with pytest.raises(InputError, match="k=0"):
        search(HybridRetriever(first, second), "river", 0)
    down = ScriptedRetriever(RetrieverFailure("down"))
    with pytest.raises(RetrieverFailure, match="down"):
        search(HybridRetriever(first, down), "river", 3)
