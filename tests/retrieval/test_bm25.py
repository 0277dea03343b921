import random

import bm25s
import numpy as np
import pytest
from tests.contracts.retriever_contract import RetrieverContract
from tests.retrieval.vectors import search
from tests.tolerances import near, tolerance

from askance.core.errors import RetrieverFailure
from askance.models.scripted import ScriptedEncoder
from askance.retrieval import ranking
from askance.retrieval.bm25 import open_index
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.dense import open_dense
from askance.retrieval.index.build import build_index
from askance.retrieval.index.lexical import LexicalIndex


class TestContract(RetrieverContract):
    @pytest.fixture
    def retriever(self, contract_index):
        return open_index(contract_index)


class TestContractInThreads(TestContract):
    @pytest.fixture(autouse=True)
    def always_in_threads(self, monkeypatch):
        monkeypatch.setattr(ranking, "_MIN_STEPS_FOR_THREAD", 0)


@pytest.fixture
def opened(build, index):
    def opened(*texts):
        build(*((f"{number:04}", text) for number, text in enumerate(texts)))
        return open_index(index)

    return opened


def test_the_name_says_folder_and_size(opened, index):
    assert opened("one", "two").name == f"bm25 {index} (2 passages)"


def test_titles_count_like_text(tmp_path, index):
    (tmp_path / "rhine.md").write_text("# The Rhine\n\nIt is long.")
    (tmp_path / "elbe.md").write_text("# The Elbe\n\nIt is long.")
    build_index([tmp_path], index)
    assert [hit.passage.title for hit in search(open_index(index), "rhine")] == ["The Rhine"]


def test_a_repeated_term_weighs_twice(opened):
    retriever = opened("rhine elbe", "spree", "elbe elbe", "rhine")
    (once,) = {hit.score for hit in search(retriever, "spree")}
    (twice,) = {hit.score for hit in search(retriever, "spree spree")}
    assert twice == near(2 * once, "BM25", "float32")


def test_equal_scores_come_in_the_order_of_ids(build, index):
    ids, encoder = [f"{number:04}" for number in range(300)], ScriptedEncoder()
    random.Random(0).shuffle(ids)
    build(*((id, "the same river") for id in ids), encoder=encoder)
    for retriever in (open_index(index), open_dense(index, encoder)):
        for k in (1, 7, 100, 299, 300, 301):
            assert [hit.passage.id for hit in search(retriever, "river", k)] == sorted(ids)[:k]


def test_an_index_that_breaks_is_a_retriever_failure(opened, monkeypatch):
    def broken(*given):
        raise ValueError("bad block")

    retriever = opened("river")
    monkeypatch.setattr(LexicalIndex, "search", broken)
    with pytest.raises(RetrieverFailure, match="could not be searched for 'river': bad block"):
        search(retriever, "river")


def synthetic_texts(generator, num_texts, lengths):
    """Return texts of made-up words whose frequencies fall like those of words in a language."""
    weights = 1 / np.arange(1, 8001)
    for length in generator.choice(lengths, num_texts):
        drawn = generator.choice(8000, size=length, p=weights / weights.sum())
        yield " ".join(f"t{number}" for number in drawn)


# Like Lucene, tantivy keeps the length of a passage in one byte: up to 40 terms exactly, a greater one
# rounded down to one of a few, such as these.
KEPT_EXACTLY = [*range(5, 41), 56, 60, 64, 68, 72, 76, 80, 84, 88, 96, 104, 112]


@pytest.mark.parametrize(
    ("lengths", "number_format", "least_agreement"),
    [(KEPT_EXACTLY, "float32", 1.0), (range(60, 111), "length in a byte", 0.97)],
    ids=["lengths kept exactly", "lengths rounded"],
)
def test_ranks_like_an_exact_bm25(opened, lengths, number_format, least_agreement):
    """Compare the ten best hits with those of an exact implementation (the oracle).

    Agreement is the share of our ten best whose score, by the oracle, is at least that of the oracle's tenth
    best less `slack`. So all members of a tie are right, and near ties too if lengths are rounded.
    """
    slack = tolerance(number_format, "ties of BM25")
    generator, analysis = np.random.default_rng(7), Analysis()
    texts = list(synthetic_texts(generator, 3000, lengths))
    retriever = opened(*texts)
    oracle = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    oracle.index([analysis.terms(text) for text in texts], show_progress=False)

    agreements = []
    for query in synthetic_texts(generator, 250, range(2, 13)):
        exact = oracle.get_scores(analysis.terms(query))
        best = np.sort(exact[exact > 0])[::-1][:10]
        hits = search(retriever, query, 10)
        assert len(hits) == len(best)
        if hits:
            agreements.append(np.mean([exact[int(hit.passage.id)] >= best[-1] * (1 - slack) for hit in hits]))
        # Lucene has left out the constant factor k1 + 1 that tantivy keeps.
        assert [hit.score / 2.2 for hit in hits] == near(best.tolist(), "BM25", number_format)
    assert len(agreements) >= 200
    assert np.mean(agreements) >= least_agreement
