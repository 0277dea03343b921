import pytest

from askance.core.answers import Usage
from askance.core.errors import InputError
from askance.evaluation.metrics.prices import Prices, cost, read_prices
from tests.tolerances import near

USAGE = Usage(prompt_tokens=1_000_000, generated_tokens=100_000, reused_tokens=500_000, searches=2)


@pytest.mark.parametrize(
    ("settings", "prices", "expected"),
    [
        (["prompt=2", "generated=8", "search=0.01"], Prices(2, 8, 0.01), 2 + 0.8 + 0.02),
        (["search=5e-3", "generated=8", "prompt=2", "currency=EUR"], Prices(2, 8, 0.005, "EUR"), 2.81),
        (["prompt=0", "generated=0", "search=0.5"], Prices(0, 0, search=0.5), 1),
    ],
)
def test_the_cost_of_a_question(settings, prices, expected):
    assert read_prices(settings) == prices
    assert cost(USAGE, prices) == near(expected)
    assert cost(Usage(), prices) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("prompt", "'prompt' sets no price: write NAME=PRICE"),
        ("prompt=cheap generated=1", "parameter prompt='cheap' of the prices: expected float"),
        ("prompt= generated=1", "parameter prompt='' of the prices: expected float"),
        ("prompt=0,15 generated=1", "parameter prompt='0,15' of the prices: expected float"),
        ("prompt=-1 generated=1", "parameter prompt=-1.0 of the prices: expected a value from 0 to 1e"),
        ("prompt=1 generated=inf", "parameter generated=inf of the prices: expected a value from 0 to"),
        ("prompt=1 generated=1 reused=1", "unknown parameter 'reused' of the prices"),
        ("prompt=nan generated=1", "parameter prompt=nan of the prices: expected a value from 0"),
        ("prompt=1 generated=1 search=-0.1", "parameter search=-0.1 of the prices: expected a value from"),
        ("prompt=1 prompt=1 generated=1", "price prompt is given twice, last as 'prompt=1'"),
        ("prompt=1", "no price for generated: add generated=PRICE"),
        ("", "no price for prompt"),
        ("prompt=1 generated=1 currency=", "the currency of the prices is empty"),
        ("promt=1", "unknown parameter 'promt' of the prices: did you mean 'prompt'"),
    ],
)
def test_bad_prices(settings, message):
    with pytest.raises(InputError, match=message):
        read_prices(settings.split())
