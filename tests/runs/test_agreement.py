"""The figures of agreement, by hand."""

from runs.agreement import agreement, matched_threshold, spearman

from tests.tolerances import near


def sentence(own, other, queries=("", "")):
    return {
        name: {"words": ["w"] * len(scores), "scores": scores, "queries": [query] * len(scores)}
        for name, scores, query in (("own", own, queries[0]), ("other", other, queries[1]))
    }


SENTENCES = [
    sentence([0.2, 0.9], [0.6, 0.3], ("old town Bonn", "town bonn")),
    sentence([0.1, 0.3], [0.4, 0.2]),
    sentence([0.8, 0.1], [0.9, 0.1], ("river", "river")),
    sentence([0.1], [0.7]),
]


def test_agreement_by_hand():
    found = agreement(SENTENCES, "other", 0.5, 0.5)
    assert (found.own_searches, found.proxy_searches, found.both_search) == (2, 3, 2)
    assert found.same_verdict == 0.75
    assert found.kappa == near(0.5)
    assert found.same_word == 0.5
    assert found.query_overlap == near((2 / 3 + 1) / 2)


def test_the_matched_threshold_searches_as_often():
    threshold = matched_threshold(SENTENCES, 0.5, "other")
    found = agreement(SENTENCES, "other", 0.5, threshold)
    assert threshold == 0.6
    assert found.proxy_searches == found.own_searches == 2
    assert matched_threshold(SENTENCES, 0.0, "other") == 0.0
    assert matched_threshold(SENTENCES, 5.0, "other") == 5.0


def test_rank_correlation():
    assert spearman([1, 2, 3], [10, 20, 90]) == near(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == near(-1)
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4.
    assert spearman([1, 5, 5, 9], [1, 2, 3, 4]) == near(0.9487, "as told", "4 decimals")
    assert spearman([1, 1], [1, 2]) is None
