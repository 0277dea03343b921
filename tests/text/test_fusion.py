"""Reciprocal rank fusion."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from askance.text.fusion import fuse
from tests.tolerances import near


def test_by_hand():
    assert fuse([["a", "b", "c"], ["c", "d"]]) == [
        ("c", near(1 / 63 + 1 / 61)),
        ("a", near(1 / 61)),
        ("b", near(1 / 62)),
        ("d", near(1 / 62)),
    ]
    assert fuse([["x", "a"], ["y", "a"]], constant=0)[0] == ("x", 1.0)
    assert [name for name, _ in fuse([["b", "a"], ["a", "b"], ["c", "d"]])] == ["b", "a", "c", "d"]
    assert fuse([["a", "a", "b"]]) == fuse([["a", "b"]]), "a thing counts once, at its best place"


@given(st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), max_size=5))
def test_scores_fall_and_no_ranking_weighs_more_than_another(rankings):
    fused = fuse(rankings)
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)
    assert {each for each, _ in fused} == {each for ranking in rankings for each in ranking}
    for order in list(permutations(rankings))[:24]:
        assert dict(fuse(order)) == dict(fused)
    if len(rankings) == 1:
        assert [each for each, _ in fused] == rankings[0]
