from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from askance.text.fusion import fuse
from tests.tolerances import near

RANKINGS = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), max_size=5)


def test_by_hand():
    assert fuse([["a", "b", "c"], ["c", "d"]]) == [
        ("c", near(1 / 63 + 1 / 61)),
        ("a", near(1 / 61)),
        ("b", near(1 / 62)),
        ("d", near(1 / 62)),
    ]


def test_what_all_find_beats_what_one_finds_first():
    assert fuse([["x", "a"], ["y", "a"], ["z", "a"]])[0][0] == "a"
    assert fuse([["x", "a"], ["y", "a"]], constant=0)[0] == ("x", 1.0)


def test_equal_scores_stand_in_the_order_of_first_appearance():
    assert [name for name, _ in fuse([["b", "a"], ["a", "b"], ["c", "d"]])] == ["b", "a", "c", "d"]


def test_one_ranking_keeps_its_order_and_none_gives_nothing():
    assert [name for name, _ in fuse([["c", "a", "b"]])] == ["c", "a", "b"]
    assert fuse([]) == fuse([[], []]) == []


def test_a_thing_twice_in_a_ranking_counts_once_at_its_best_place():
    assert fuse([["a", "a", "b"]]) == fuse([["a", "b"]])


@given(RANKINGS)
def test_scores_fall_and_no_ranking_weighs_more_than_another(rankings):
    fused = fuse(rankings)
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)
    assert {each for each, _ in fused} == {each for ranking in rankings for each in ranking}
    for order in list(permutations(rankings))[:24]:
        assert dict(fuse(order)) == dict(fused)
