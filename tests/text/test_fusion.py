"""Reciprocal rank fusion."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from askance.core.types import Hit, Passage
from askance.text.fusion import fuse_hits
from tests.tolerances import near


def fused(rankings):
    """Return the ids of the passages with their scores, given rankings of ids."""
    hits = fuse_hits([[Hit(Passage(str(id), "", ""), 0.0, 0) for id in ranking] for ranking in rankings])
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return [(hit.passage.id, hit.score) for hit in hits]


def test_by_hand():
    assert fused(["abc", "cd"]) == [
        ("c", near(1 / 63 + 1 / 61)),
        ("a", near(1 / 61)),
        ("b", near(1 / 62)),
        ("d", near(1 / 62)),
    ]
    assert [id for id, _ in fused(["ba", "ab", "cd"])] == ["b", "a", "c", "d"]
    assert fused(["aab"]) == fused(["ab"]), "a passage counts once, at its best place"


@given(st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), max_size=5))
def test_scores_fall_and_no_ranking_weighs_more_than_another(rankings):
    best = fused(rankings)
    scores = [score for _, score in best]
    assert scores == sorted(scores, reverse=True)
    assert {id for id, _ in best} == {str(id) for ranking in rankings for id in ranking}
    for order in list(permutations(rankings))[:24]:
        assert dict(fused(order)) == dict(best)
    if len(rankings) == 1:
        assert [id for id, _ in best] == list(map(str, rankings[0]))
