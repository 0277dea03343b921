import pytest

from askance.core.answers import Usage
from askance.core.errors import InputError, UnknownName
from askance.evaluation.metrics.prices import Prices, cost, read_prices
from tests.tolerances import near

USAGE = Usage(prompt_tokens=1_000_000, generated_tokens=100_000, reused_tokens=500_000, searches=2)


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        (Prices(prompt=2, generated=8, reused=1, search=0.01), 1 + 0.5 + 0.8 + 0.02),
        (Prices(prompt=2, generated=8), 2 + 0.8),
        (Prices(prompt=2, generated=8, reused=0), 1 + 0.8),
        (Prices(prompt=0, generated=0, search=0.5), 1),
    ],
)
def test_cost_of_a_question(prices, expected):
    assert cost(USAGE, prices) == near(expected)
    assert cost(Usage(), prices) == 0


def test_reading():
    assert read_prices(["prompt=0.15", "generated=0.60"]) == Prices(0.15, 0.6, None, 0, "USD")
    texts = ["search=5e-3", "generated=8", "prompt=2", "currency=EUR", "reused=0.5"]
    assert read_prices(texts) == Prices(2, 8, 0.5, 0.005, "EUR")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["prompt"], "'prompt' sets no price: write NAME=PRICE"),
        (["prompt=cheap", "generated=1"], "parameter prompt='cheap' of the prices: expected float"),
        (["prompt=", "generated=1"], "parameter prompt='' of the prices: expected float"),
        (["prompt=0,15", "generated=1"], "parameter prompt='0,15' of the prices: expected float"),
        (["prompt=-1", "generated=1"], "parameter prompt=-1.0 of the prices: expected a value from 0 to 1e"),
        (
            ["prompt=1", "generated=inf"],
            "parameter generated=inf of the prices: expected a value from 0 to 1e",
        ),
        (
            ["prompt=1", "generated=1", "reused=nan"],
            "parameter reused=nan of the prices: expected a value from 0 to 1e",
        ),
        (
            ["prompt=1", "generated=1", "search=-0.1"],
            "parameter search=-0.1 of the prices: expected a value from 0 to 1e",
        ),
        (["prompt=1", "prompt=1", "generated=1"], "price prompt is given twice, last as 'prompt=1'"),
        (["prompt=1"], "no price for generated: add generated=PRICE"),
        ([], "no price for prompt"),
        (["prompt=1", "generated=1", "currency="], "the currency of the prices is empty"),
    ],
)
def test_bad_prices(settings, message):
    with pytest.raises(InputError, match=message):
        read_prices(settings)


def test_unknown_price():
    with pytest.raises(UnknownName, match="unknown parameter 'promt' of the prices: did you mean 'prompt'"):
        read_prices(["promt=1"])
