import asyncio
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contracts.retriever_contract import PASSAGES, RetrieverContract
from tests.retrieval.conftest import rows_file
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

ENCODER = ScriptedEncoder()


class TestDense(RetrieverContract):
    @pytest.fixture
    def retriever(self, contract_index):
        return open_dense(contract_index, ENCODER)


class TestDenseInThreads(TestDense):
    @pytest.fixture(autouse=True)
    def always_in_threads(self, monkeypatch):
        monkeypatch.setattr(ranking, "_MIN_STEPS_FOR_THREAD", 0)


class TestHybrid(RetrieverContract):
    @pytest.fixture
    def retriever(self, contract_index):
        return open_hybrid(contract_index, ENCODER)


@pytest.fixture
def built(build, index):
    build(*((f"{number:03}", f"word number {number} of many") for number in range(60)), encoder=ENCODER)
    return index


def test_names_and_fingerprints(built):
    bm25, dense, hybrid = open_index(built), open_dense(built, ENCODER), open_hybrid(built, ENCODER)
    assert dense.name == f"dense {built} (60 passages, scripted)"
    assert hybrid.name == f"hybrid of {bm25.name} and {dense.name}"
    assert len({each.fingerprint for each in (bm25, dense, hybrid)}) == 3
    assert ENCODER.fingerprint in dense.fingerprint
    assert ENCODER.fingerprint in hybrid.fingerprint
    assert HybridRetriever(bm25, ScriptedRetriever()).fingerprint == ""


WORDS = st.lists(st.sampled_from("rhine elbe spree main".split()), min_size=1, max_size=4).map(" ".join)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=30), min_size=1, max_size=3),
    WORDS,
    st.integers(1, 40),
)
def test_finds_what_comparing_with_every_passage_finds(tmp_path_factory, versions, query, k):
    """This holds with several segments and dead rows, too: each version replaces the one before."""
    folder = tmp_path_factory.mktemp("exact")
    encoder = ScriptedEncoder(8)
    for texts in versions:
        rows = [(f"{number:03}", text) for number, text in enumerate(texts)]
        build_index([rows_file(folder / "rows.jsonl", *rows)], folder / "index", encoder=encoder)
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


def test_passages_of_long_documents_are_found(tmp_path, index):
    (tmp_path / "a.txt").write_text(" ".join(f"word{number}" for number in range(950)))
    (tmp_path / "b#7.txt").write_text("word 950")
    build_index([tmp_path / "a.txt", tmp_path / "b#7.txt"], index, encoder=ScriptedEncoder(64))
    retriever = open_dense(index, ScriptedEncoder(64))
    hits = search(retriever, " ".join(f"word{number}" for number in range(300, 400)), 3)
    assert hits[0].passage.id == "a.txt#4"
    assert hits[0].passage.text.split()[0] == "word300"
    assert len(search(retriever, "word", 99)) == 11


def test_an_open_index_stays_as_it_is_when_a_build_replaces_it(built, build):
    retriever = open_dense(built, ENCODER)
    before = search(retriever, "number 7", 5)
    build(("x", "new"), encoder=ENCODER)
    assert not (built / "generation-000001").exists()
    assert search(retriever, "number 7", 5) == before
    assert [hit.passage.text for hit in search(open_dense(built, ENCODER), "x")] == ["new"]


@pytest.mark.parametrize("open_", [open_dense, open_hybrid])
def test_vectors_that_are_missing_or_of_another_encoder(build, index, open_):
    problem = r"has no vectors: make them with `askance index DOCS --out .*index --encoder bundled`"
    for made_by in (None, ENCODER):
        build(("a", "one"), encoder=made_by)
        with pytest.raises(BadIndex, match=problem):
            open_(index, ScriptedEncoder(8))
        problem = r"built with the encoder scripted \(16 dimensions, .*, not with the .*another folder"


NOT_OF_LENGTH_1 = r"is not a vector of length 1 .*use another encoder"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (np.zeros(16), NOT_OF_LENGTH_1),
        (np.full(16, np.nan), NOT_OF_LENGTH_1),
        (np.full(16, np.inf), NOT_OF_LENGTH_1),
        (np.ones(16), NOT_OF_LENGTH_1),
        (np.ones(8) / 8**0.5, r"the shape \(1, 8\) where \(1, 16\) was due"),
        (ModelFailure("no memory"), "could not be searched for 'word': no memory"),
    ],
)
def test_encoders_that_break_while_searching(built, row, problem):
    class Broken(FixedEncoder):
        fingerprint = ENCODER.fingerprint

        async def embed(self, texts, kind="text"):
            if texts and isinstance(self.row, Exception):
                raise self.row
            return await super().embed(texts, kind)

    assert len(search(open_dense(built, Broken(np.ones(16) / 4)), "word", 3)) == 3
    with pytest.raises(RetrieverFailure, match=problem):
        search(open_dense(built, Broken(row)), "word", 3)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("lost", "0 bytes"),
        ("short", "too few"),
        (np.nan, "row 17 is not a vector"),
        (0, "row 17 is not a vector"),
        ("no database, whatever its name " * 99, ""),
        ("", ""),
    ],
)
def test_damaged_vectors(built, damage, problem):
    (name,) = files_of_vectors(built)
    path = generation_folder(built, 1) / VECTORS / name
    if damage == "lost":
        path.unlink()
    elif damage == "short":
        path.write_bytes(path.read_bytes()[:-1])
    elif isinstance(damage, str):
        document_table_path(built).write_text(damage)
    else:
        rows = np.fromfile(path, dtype="<f4").reshape(60, 16)
        rows[17] = damage
        rows.tofile(path)
    with pytest.raises(BadIndex, match=rf"can't be opened \(.*{problem}.*build the index again"):
        open_dense(built, ENCODER)
    assert len(search(open_index(built), "word", 3)) == 3


def test_many_threads_search_one_index(built):
    retriever, found = open_dense(built, ENCODER), []
    expected = search(retriever, "number 5", 5)
    work = lambda: found.append(search(retriever, "number 5", 5))  # noqa: E731
    threads = [threading.Thread(target=work) for _ in range(8)]
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
    with pytest.raises(RetrieverFailure, match="down"):
        search(HybridRetriever(first, ScriptedRetriever(RetrieverFailure("down"))), "river", 3)
