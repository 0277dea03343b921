import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.text.fusion import fuse


def test_ranks_add_up():
    fused = fuse([["a", "b", "c"], ["c", "a"]])
    assert fused == [("a", 1 / 61 + 1 / 62), ("c", 1 / 63 + 1 / 61), ("b", 1 / 62)]
    assert dict(fuse([["a"], ["b", "a"]], constant=0)) == pytest.approx({"a": 1.5, "b": 1.0})


def test_equal_scores_come_as_they_first_appear():
    assert [item for item, _ in fuse([["b", "x"], ["a", "y"]])] == ["b", "a", "x", "y"]
    assert fuse([]) == fuse([[], []]) == []


@given(st.lists(st.lists(st.integers(0, 20), unique=True), max_size=4))
def test_all_is_ranked_once_best_first(rankings):
    fused = fuse(rankings)
    assert {item for item, _ in fused} == {item for ranking in rankings for item in ranking}
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)
    if len(rankings) == 1:
        assert [item for item, _ in fused] == rankings[0]
