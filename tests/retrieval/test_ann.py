"""Clusters of faiss beside the vectors of an index: what they find, when they are written, and their loss."""

import asyncio

import numpy as np
import pytest
from tests.retrieval.vectors import files_of_vectors, search

from askance.core.notes import noted
from askance.models.scripted import ScriptedEncoder
from askance.retrieval import ann
from askance.retrieval.dense import open_dense
from askance.retrieval.filters import parse_filter
from askance.retrieval.index.index_folder import VECTORS, generation_folder

faiss = pytest.importorskip("faiss", reason="needs the extra dense")

ENCODER = ScriptedEncoder()
QUERIES = [f"word{at} word{7 * at}" for at in range(0, 120, 17)]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Cluster more than 30 vectors, and again after 20 further ones, and read all lists."""
    for name, value in {"EXACT_ROWS": 30, "EXACT_TAIL": 20, "LISTS_READ": 1}.items():
        monkeypatch.setattr(ann, name, value)


@pytest.fixture
def asked(monkeypatch):
    """Return the limits for which candidates were looked for."""
    limits, real = [], ann.candidates

    def candidates(index, query, limit, is_searched):
        limits.append(limit)
        return real(index, query, limit, is_searched)

    monkeypatch.setattr(ann, "candidates", candidates)
    return limits


def text_of(at):
    return f"word{at} word{7 * at} word{11 * at}"


def rows(numbers):
    return [{"id": f"{at:03}", "text": text_of(at), "half": at % 2} for at in numbers]


def clusters(index):
    """Return the number of rows in the name of each faiss file."""
    names = [name for name in files_of_vectors(index) if name.endswith(".faiss")]
    return [int(name.split(".")[1].partition("-")[0]) for name in names]


def opened(index):
    """Return a dense retriever, and the notes of its opening."""
    notes = []
    with noted(lambda name, text: notes.append(f"{name}: {text}")):
        return open_dense(index, ENCODER), notes


def exact(retriever, query, k):
    """Return the hits of a search that compares the query with every vector."""
    vectors = retriever.index.vectors
    clustered, vectors._clusters = vectors._clusters, None
    try:
        return search(retriever, query, k)
    finally:
        vectors._clusters = clustered


@pytest.mark.parametrize(
    ("numbers", "covered"),
    [
        ([range(30)], []),
        ([range(31)], [31]),
        ([range(120)], [120]),
        ([range(120), range(140)], [120]),
        ([range(120), range(15, 141)], [141]),
        ([range(120), range(75, 120)], [45]),
        ([range(120), range(100, 120)], []),
    ],
)
def test_after_any_change_the_same_is_found_as_without_clusters(build, index, asked, numbers, covered):
    for each in numbers:
        build(*rows(each), encoder=ENCODER)
    retriever, notes = opened(index)
    assert (clusters(index), notes) == (covered, [])
    for query in QUERIES:
        assert search(retriever, query, 3) == exact(retriever, query, 3)
    assert bool(asked) == bool(covered)
    num_passages = len(numbers[-1])
    assert len(search(retriever, "word", 10**6)) == num_passages
    assert all(limit < num_passages / ann.CANDIDATES + 1 for limit in asked)


def test_a_filter_searches_clusters_only_if_many_pass_it(build, index, asked):
    build(*rows(range(120)), encoder=ENCODER)
    retriever, _ = opened(index)
    for where, is_asked in (("half = 1", True), ("id < '030'", False)):
        asked.clear()
        filtered = retriever.filtered(parse_filter(where))
        assert [search(filtered, query, 3) for query in QUERIES] == [
            exact(filtered, query, 3) for query in QUERIES
        ]
        assert bool(asked) is is_asked


def test_lists_that_have_too_few_of_the_vectors_searched_are_not_relied_upon(build, index, monkeypatch):
    build(*rows(range(120)), encoder=ENCODER)
    retriever, _ = opened(index)
    monkeypatch.setattr(ann, "candidates", lambda *given: np.arange(2))
    assert search(retriever, "word7", 3) == exact(retriever, "word7", 3)


def faiss_file(index, generation=1):
    (path,) = (generation_folder(index, generation) / VECTORS).glob("*.faiss")
    return path


NO_CLUSTERS = {
    "not clustered": ("Flat", 120, 16),
    "of more rows": ("IVF2,Flat", 121, 16),
    "longer": ("IVF2,Flat", 120, 17),
}
DAMAGES = ["cut off", "other content", "of other rows", "of a strange name", "lost", *NO_CLUSTERS]


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_that_are_damaged_or_not_of_these_vectors_are_named_and_not_used(build, index, asked, damage):
    build(*rows(range(120)), encoder=ENCODER)
    path, remedy = faiss_file(index), "vectors: a search reads all 120 vectors, which is slow: {}run `askance"
    if damage == "cut off":
        path.write_bytes(path.read_bytes()[:-99])
    elif damage == "other content":
        path.write_bytes(b"no faiss file " * 99)
    elif damage == "lost":
        path.unlink()
    elif damage in NO_CLUSTERS:
        kind, num_rows, dimensions = NO_CLUSTERS[damage]
        made = faiss.index_factory(dimensions, kind, faiss.METRIC_INNER_PRODUCT)
        vectors = np.random.default_rng(0).random((num_rows, dimensions), dtype=np.float32)
        made.train(vectors)
        made.add(vectors)
        faiss.write_index(made, str(path))
    else:
        name = "000001.120-00112233445566ff.faiss" if damage == "of other rows" else "000001.x.faiss"
        path.rename(path.with_name(name))
    retriever, (note,) = opened(index)
    is_named = damage in ("cut off", "other content", *NO_CLUSTERS)
    assert note.startswith(remedy.format(f"delete the damaged {path}, and " if is_named else ""))
    assert len(search(retriever, "word7", 3)) == 3
    assert not asked
    path.unlink(missing_ok=True)
    build(*rows(range(120)), encoder=ENCODER)
    assert (clusters(index), opened(index)[1]) == ([120], [])


def test_without_faiss_everything_works_and_its_later_installation_is_used(build, index, asked, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(ann, "is_installed", lambda: False)
        build(*rows(range(120)), encoder=ENCODER)
        retriever, (note,) = opened(index)
        assert "install faiss (" in note
        assert "[dense]" in note
        before = [search(retriever, query, 3) for query in QUERIES]
        assert not asked
        assert clusters(index) == []
    build(*rows(range(120)), encoder=ENCODER)
    retriever, notes = opened(index)
    assert (clusters(index), notes) == ([120], [])
    assert [search(retriever, query, 3) for query in QUERIES] == before
    assert asked
    changed = build(*rows(range(120)), encoder=ENCODER)
    assert changed.outcomes == {"unchanged": 120}
    assert faiss_file(index, 2).exists()


def test_a_part_of_the_lists_finds_the_nearest_vectors(build, index, monkeypatch):
    """A vector is in the list whose centre is nearest, so it finds itself in one list."""
    monkeypatch.setattr(ann, "LISTS_READ", 1 / 8)
    build(*rows(range(120)), encoder=ENCODER)
    retriever, _ = opened(index)
    for at in range(0, 120, 17):
        assert search(retriever, text_of(at), 1)[0].passage.id == f"{at:03}"
        (vector,) = asyncio.run(ENCODER.embed([text_of(at)]))
        found = ann.candidates(retriever.index.vectors._clusters, vector, 3, np.ones(120, dtype=bool))
        assert at in found
        assert len(found) <= 3 * ann.CANDIDATES
