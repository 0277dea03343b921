"""Retrievers by words, by vectors and by both: their contract, exact rankings, and failures."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import bm25s
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contracts.retriever_contract import PASSAGES, RetrieverContract
from tests.retrieval.conftest import rows_file
from tests.retrieval.vectors import FixedEncoder, document_table_path, files_of_vectors, search
from tests.tolerances import near, tolerance

from askance.configuration.build import open_retriever
from askance.core.errors import BadIndex, InputError, ModelFailure, RetrieverFailure
from askance.models.scripted import ScriptedEncoder
from askance.retrieval import ranking
from askance.retrieval.bm25 import open_index
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.dense import HybridRetriever, open_dense, open_hybrid
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import VECTORS, generation_folder
from askance.retrieval.index.lexical import LexicalIndex
from askance.retrieval.scripted import ScriptedRetriever

ENCODER = ScriptedEncoder()
KINDS = {
    "bm25": open_index,
    "dense": lambda folder: open_dense(folder, ENCODER),
    "hybrid": lambda folder: open_hybrid(folder, ENCODER),
    "scripted": lambda folder: ScriptedRetriever(PASSAGES),
}


class TestRetrievers(RetrieverContract):
    @pytest.fixture(params=[*KINDS, "bm25 in threads"])
    def retriever(self, request, contract_index, monkeypatch):
        kind, _, threads = request.param.partition(" ")
        if threads:
            monkeypatch.setattr(ranking, "_MIN_STEPS_FOR_THREAD", 0)
        return KINDS[kind](contract_index)


@pytest.fixture
def built(build, index):
    build(*((f"{number:03}", f"word number {number} of many") for number in range(60)), encoder=ENCODER)
    return index


def test_names_and_fingerprints_tell_retrievers_apart(built):
    bm25, dense, hybrid = open_index(built), open_dense(built, ENCODER), open_hybrid(built, ENCODER)
    assert bm25.name == f"bm25 {built} (60 passages)"
    assert dense.name == f"dense {built} (60 passages, scripted)"
    assert hybrid.name == f"hybrid of {bm25.name} and {dense.name}"
    assert len({each.fingerprint for each in (bm25, dense, hybrid)}) == 3
    assert ENCODER.fingerprint in dense.fingerprint
    assert ENCODER.fingerprint in hybrid.fingerprint
    assert HybridRetriever(bm25, ScriptedRetriever()).fingerprint == ""


def test_the_parameters_of_bm25_count_repeated_terms_and_tell_retrievers_apart(build, index):
    build({"id": "a", "text": "rhine rhine rhine bonn"}, {"id": "b", "text": "rhine elbe"}, encoder=ENCODER)
    plain, changed = open_index(index), open_retriever(index, "bm25?k1=0&b=1")
    assert open_index(index, "1.2", 0.75).fingerprint == plain.fingerprint
    assert changed.fingerprint == f"{plain.fingerprint}, k1=0, b=1"
    assert changed.name == f"bm25 {index} (2 passages, k1=0, b=1)"
    one, two = ([hit.score for hit in search(changed, query, 2)] for query in ("rhine", "rhine rhine"))
    assert (one[0], two[0]) == (one[1], near(2 * one[0], "BM25", "float32"))
    assert [hit.passage.id for hit in search(changed, "elbe", 2)] == ["b"]


def test_equal_scores_come_in_the_order_of_ids_and_a_title_counts_like_text(build, index):
    ids = [f"{number:04}" for number in range(300)]
    random.Random(0).shuffle(ids)
    rows = ({"id": id, "text": "the same river"} for id in ids)
    build(*rows, {"id": "elbe", "title": "The Elbe", "text": "It is long."}, encoder=ENCODER)
    for retriever in (open_index(index), open_dense(index, ENCODER)):
        for k in (1, 7, 100, 299, 300):
            assert [hit.passage.id for hit in search(retriever, "same river", k)] == sorted(ids)[:k]
        assert search(retriever, "elbe", 1)[0].passage.id == "elbe"


def synthetic_texts(generator, num_texts, lengths):
    """Return texts of made-up words whose frequencies fall like those of words in a language."""
    weights, drawn_lengths = 1 / np.arange(1, 8001), generator.choice(lengths, num_texts)
    drawn = generator.choice(8000, size=drawn_lengths.sum(), p=weights / weights.sum())
    for numbers in np.split(drawn, drawn_lengths.cumsum()[:-1]):
        yield " ".join(f"t{number}" for number in numbers)


# Like Lucene, tantivy keeps the length of a passage in one byte: up to 40 terms exactly, a greater one
# rounded down to one of a few, such as these.
KEPT_EXACTLY = [*range(5, 41), 56, 60, 64, 68, 72, 76, 80, 84, 88, 96, 104, 112]


@pytest.mark.parametrize(
    ("lengths", "number_format", "least_agreement", "k1", "b"),
    [
        (KEPT_EXACTLY, "float32", 1.0, 1.2, 0.75),
        (range(60, 111), "length in a byte", 0.97, 1.2, 0.75),
        (KEPT_EXACTLY, "float32", 1.0, 0.9, 0.4),
        (KEPT_EXACTLY, "float32", 1.0, 2.0, 0.0),
    ],
)
def test_ranks_like_an_exact_bm25(build, index, lengths, number_format, least_agreement, k1, b):
    """Compare the ten best hits with those of an exact implementation (the oracle).

    Agreement is the share of our ten best whose score, by the oracle, is at least that of the oracle's tenth
    best less `slack`. So all members of a tie are right, and near ties too if lengths are rounded.
    """
    slack = tolerance(number_format, "ties of BM25")
    generator, analysis = np.random.default_rng(7), Analysis()
    texts = list(synthetic_texts(generator, 2000, lengths))
    build(*((str(number), text) for number, text in enumerate(texts)))
    retriever = open_index(index, str(k1), str(b))
    oracle = bm25s.BM25(method="lucene", k1=k1, b=b)
    oracle.index([analysis.terms(text) for text in texts], show_progress=False)

    agreements = []
    for query in synthetic_texts(generator, 120, range(2, 13)):
        exact = oracle.get_scores(analysis.terms(query))
        best = np.sort(exact[exact > 0])[::-1][:10]
        hits = search(retriever, query, 10)
        assert len(hits) == len(best)
        if hits:
            agreements.append(np.mean([exact[int(hit.passage.id)] >= best[-1] * (1 - slack) for hit in hits]))
        # Lucene has left out the constant factor k1 + 1 that tantivy keeps.
        assert [hit.score / (k1 + 1) for hit in hits] == near(best.tolist(), "BM25", number_format)
    assert len(agreements) >= 100
    assert np.mean(agreements) >= least_agreement


WORDS = st.lists(st.sampled_from("rhine elbe spree main".split()), min_size=1, max_size=4).map(" ".join)
VERSIONS = st.lists(st.lists(WORDS, min_size=1, max_size=30), min_size=1, max_size=3)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VERSIONS, WORDS, st.integers(1, 40))
def test_vectors_find_what_comparing_with_every_passage_finds(tmp_path_factory, versions, query, k):
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


def test_many_threads_search_one_index(built):
    retriever = open_dense(built, ENCODER)
    with ThreadPoolExecutor(8) as threads:
        hits = list(threads.map(search, [retriever] * 8, ["number 5"] * 8))
    assert hits == [search(retriever, "number 5")] * 8


def test_hybrid_finds_what_either_finds():
    first, second = ScriptedRetriever(PASSAGES[:2]), ScriptedRetriever(PASSAGES[1:])
    hits = search(HybridRetriever(first, second), "river", 3)
    assert [(hit.passage.id, hit.score, hit.rank) for hit in hits] == [
        ("elbe", 1 / 3 + 1 / 4, 1), ("rhine", 1 / 3, 2), ("spree", 1 / 4, 3)
    ]  # fmt: skip
    both = [replace(PASSAGES[1], id=str(id)) for id in range(9)]
    first, second = ScriptedRetriever(both), ScriptedRetriever((*PASSAGES[:1], *both))
    assert [hit.passage.id for hit in search(HybridRetriever(first, second), "river", 4)].index("rhine") == 3
    with pytest.raises(InputError, match="k=0"):
        search(HybridRetriever(first, second), "river", 0)
    with pytest.raises(RetrieverFailure, match="down"):
        search(HybridRetriever(first, ScriptedRetriever(RetrieverFailure("down"))), "river", 3)


def test_a_script_says_what_each_query_finds():
    retriever = ScriptedRetriever({"Bonn?": PASSAGES[:1], "Berlin?": RetrieverFailure("down")})
    assert [hit.passage.id for hit in search(retriever, "Bonn?")] == ["rhine"]
    assert search(retriever, "Paris?") == ()
    for failing in (retriever, ScriptedRetriever(RetrieverFailure("down"))):
        with pytest.raises(RetrieverFailure, match="down"):
            search(failing, "Berlin?")
    assert retriever.queries == ["Bonn?", "Paris?", "Berlin?"]


def test_an_index_that_breaks_is_a_failure_of_the_retriever(built, monkeypatch):
    def broken(*given):
        raise ValueError("bad block")

    retriever = open_index(built)
    monkeypatch.setattr(LexicalIndex, "search", broken)
    with pytest.raises(RetrieverFailure, match="could not be searched for 'river': bad block"):
        search(retriever, "river")


@pytest.mark.parametrize("open_", [open_dense, open_hybrid])
def test_vectors_that_are_missing_or_of_another_encoder(build, index, open_):
    problem = r"has no vectors: make them with `askance index DOCS --out .*index --encoder bundled`"
    for made_by in (None, ENCODER):
        build(("a", "one"), encoder=made_by)
        with pytest.raises(BadIndex, match=problem):
            open_(index, ScriptedEncoder(8))
        problem = r"built with the encoder scripted \(16 dimensions, .*, not with the .*another folder"


LENGTH = "is not a vector of length 1 .*use another encoder"
SHAPE = r"the shape \(1, 8\) where \(1, 16\) was due"
BAD_VECTORS = [
    (np.zeros(16), LENGTH), (np.full(16, np.nan), LENGTH), (np.full(16, np.inf), LENGTH),
    (np.ones(16), "not normalised"), (np.ones(8) / 8**0.5, SHAPE),
]  # fmt: skip


@pytest.mark.parametrize(("row", "problem"), [*BAD_VECTORS, (ModelFailure("no memory"), "no memory")])
def test_encoders_that_break_while_an_index_is_built_or_searched(build, index, row, problem):
    with pytest.raises(ModelFailure, match=problem):
        build(("a", "word"), encoder=FixedEncoder(row))
    with pytest.raises(BadIndex, match="holds no index"):
        open_index(index)
    build(("a", "word"), encoder=ENCODER)
    assert len(search(open_dense(index, FixedEncoder(np.ones(16) / 4)), "word", 3)) == 1
    with pytest.raises(RetrieverFailure, match=f"could not be searched for 'word': .*{problem}"):
        search(open_dense(index, FixedEncoder(row)), "word", 3)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [("lost", "0 bytes"), ("short", "too few"), (np.nan, "row 17 is not a vector"),
     (0, "row 17 is not a vector"), ("no database, whatever its name " * 99, ""), ("", "")],
)  # fmt: skip
def test_damaged_vectors(built, build, damage, problem):
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
    if damage in ("lost", "short"):
        with pytest.raises(BadIndex, match=r"is damaged \(.*too few .*delete the folder"):
            build(("a", "one"), encoder=ENCODER)
