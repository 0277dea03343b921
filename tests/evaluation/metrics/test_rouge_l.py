import pytest

from askance.evaluation.metrics.answers import rouge_l
from tests.tolerances import near


@pytest.mark.parametrize(
    ("text", "golds", "expected"),
    [
        # "rhine flows north": 3 of 4 words, 3 of 5.
        ("The Rhine flows north.", ["Rhine: it flows north, mostly"], 2 * 3 / (4 + 5)),
        # The order counts: one word is common in order.
        ("north flows", ["flows north"], 1 / 2),
        # The best gold; there is no stemming.
        ("it flows", ["it flowed", "a river"], 1 / 2),
        ("it flows", ["a river", "it flows"], 1),
        # Outside a to z there are no words: "K", "ln".
        ("Köln", ["K ln"], 1),
        ("Киев", ["Киев"], 0),
        ("", ["Bonn"], 0),
    ],
)
def test_by_hand(text, golds, expected):
    assert rouge_l(text, golds) == near(expected)
