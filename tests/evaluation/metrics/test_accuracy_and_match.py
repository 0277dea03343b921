import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.evaluation.metrics.answers import accuracy, exact_match, match


@pytest.mark.parametrize(
    ("text", "golds", "of_accuracy", "raw"),
    [
        ("It is the Rhine.", ["Elbe", "Rhine"], 1, 1),
        ("it is the rhine", ["Rhine"], 1, 0),
        ("the U.S.A., I think", ["USA"], 1, 0),
        ("William Johnson", ["son"], 1, 1),
        ("Rhine", ["river Rhine"], 0, 0),
        ("river, the Rhine", ["River Rhine"], 1, 0),
        ("", ["Rhine"], 0, 0),
        # "The" leaves nothing behind, which everything contains.
        ("Bonn", ["The", "Köln"], 0, 0),
        ("The Bonn", ["The"], None, 1),
        ("Bonn", [""], None, None),
        ("Bonn", ["", "Bonn"], 1, 1),
    ],
)
def test_by_hand(text, golds, of_accuracy, raw):
    assert accuracy(text, golds) == match(text, golds, "normalised") == of_accuracy
    assert match(text, golds) == match(text, golds, "raw") == raw


@given(st.text(max_size=20), st.lists(st.text(max_size=20), min_size=1, max_size=3))
def test_an_exact_match_is_accurate(text, golds):
    if exact_match(text, golds, "airrag"):
        assert accuracy(text, golds) == 1


@given(st.text(max_size=9), st.text(min_size=1, max_size=9), st.text(max_size=9))
def test_a_gold_is_found_wherever_it_stands(before, gold, behind):
    assert match(before + gold + behind, [gold]) == 1
