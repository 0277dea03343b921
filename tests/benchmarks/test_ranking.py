"""The measurement of rankings: what counts as relevant, and what the table says."""

import pytest

pytest.importorskip("askance_lab")

from benchmarks.ranking import first_is_relevant, main, ranked, recall

ROW = {
    "id": "q",
    "relevant": [["a", "b"], ["z"]],
    "bm25": [("c", 3.0), ("a", 2.0), ("d", 1.0)],
    "logits": {"c": 0.0, "a": 0.5, "d": 4.0},
}


def test_a_ranking_is_that_of_the_reranker_and_the_weighted_retriever():
    assert ranked(ROW, "bm25", None) == ["c", "a", "d"]
    assert ranked(ROW, "bm25", 0) == ["d", "a", "c"]
    assert ranked(ROW, "bm25", 10) == ["c", "a", "d"]


def test_the_first_passage_and_the_share_of_the_paragraphs_found():
    assert (first_is_relevant(ROW, ["a", "c"]), first_is_relevant(ROW, ["c", "a"])) == (1, 0)
    assert first_is_relevant(ROW, []) == 0
    assert recall(ROW, ["c", "a", "b", "d"]) == 0.5
    assert recall(ROW, ["c", "c", "c", "c", "c", "a"]) == 0


def measured(hotpot, tmp_path, capsys, *more):
    """Return the printed text, and the cells of the rows of the dataset."""
    rerank = "tests.retrieval.test_reranking:ByLength"
    main(["--dataset", hotpot, "--rerank", rerank, "--out", str(tmp_path / "out"), *more])
    printed = capsys.readouterr().out
    return printed, [line.split(" | ") for line in printed.splitlines() if line.startswith("| hotpotqa")]


def test_each_ranking_is_compared_with_bm25(hotpot, tmp_path, capsys):
    printed, cells = measured(hotpot, tmp_path, capsys, "--encoder", "scripted", "--reranked", "2")
    assert [", ".join(each[1:3]) for each in cells] == [
        "bm25, 3", "bm25, reranked, weight 0, 2", "bm25, reranked, weight 0.5, 2",
        "dense, 3", "dense, reranked, weight 0, 2", "dense, reranked, weight 10, 2",
        "hybrid, 3", "hybrid, reranked, weight 0, 2", "hybrid, reranked, weight 100, 2",
    ]  # fmt: skip
    assert cells[0][3:5] == ["1.000", "1.000"], "each town is found by its name"
    assert all("to" in each[3] for each in cells[1:])
    assert "4 passages" in printed


def test_without_an_encoder_bm25_alone_is_measured(hotpot, tmp_path, capsys):
    _, cells = measured(hotpot, tmp_path, capsys, "--encoder", "none", "--questions", "1")
    assert {each[1].partition(",")[0] for each in cells} == {"bm25"}
