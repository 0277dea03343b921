import pytest

from askance.evaluation.metrics.answers import rouge_l, rouge_lsum
from tests.tolerances import near


@pytest.mark.parametrize(
    ("text", "golds", "expected"),
    [
        # "bridg fell" are 2 of 3 words, and of 4: "bridges" and "bridge" have one stem.
        ("The bridges fell.", ["A bridge fell down."], 2 * 2 / (3 + 4)),
        ("It fell [1].", ["It fell."], 1),
        ("It fell.", ["A river.", "It fell."], 1),
        ("", ["It fell."], 0),
    ],
)
def test_by_hand(text, golds, expected):
    assert rouge_lsum(text, golds) == near(expected)


def test_sentences_may_change_places_unlike_in_rouge_l():
    text, gold = "It opened in 1949. It fell in 1945.", "It fell in 1945. It opened in 1949."
    assert rouge_lsum(text, [gold]) == 1
    assert rouge_l(text, [gold]) == near(4 / 8)
