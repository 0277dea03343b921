"""The cost of answers in money, at prices that the user gives."""

from collections.abc import Iterable
from dataclasses import field
from typing import ClassVar

from askance.core.answers import Usage
from askance.core.errors import InputError
from askance.core.parameters import Parameters, checked_dataclass, parse_parameters

DEFAULT_CURRENCY = "USD"
_RANGE = {"ge": 0.0, "le": 1e12}
_TOKENS_PRICED = 1_000_000


@checked_dataclass()
class Prices(Parameters):
    """The prices of tokens and searches in one currency, the same for every model that a method calls.

    Attributes:
        prompt: The price of a million prompt tokens, reused from a cache or not.
        generated: The price of a million generated tokens, including discarded ones.
        search: The price of one search.

    Raises:
        ParameterError: A price is below 0 or not finite.
        InputError: The currency is empty.
    """

    owner: ClassVar[str] = "the prices"

    prompt: float = field(metadata=_RANGE)
    generated: float = field(metadata=_RANGE)
    search: float = field(default=0.0, metadata=_RANGE)
    currency: str = DEFAULT_CURRENCY

    def __post_init__(self) -> None:
        if not self.currency:
            raise InputError("the currency of the prices is empty: name it, as in currency=EUR.")


def cost(usage: Usage, prices: Prices) -> float:
    """Return the cost of one question, in the currency of `prices`.

    For example, a question takes 1,000,000 prompt tokens, 100,000 generated tokens and 2 searches. At the
    prices prompt=2, generated=8 and search=0.01, this costs 2 + 0.8 + 0.02 = 2.82.
    """
    tokens = usage.prompt_tokens * prices.prompt + usage.generated_tokens * prices.generated
    return tokens / _TOKENS_PRICED + usage.searches * prices.search


def read_prices(settings: Iterable[str]) -> Prices:
    """Read prices from settings of the form ``NAME=PRICE``.

    The prices `prompt` and `generated` are required; `search` and `currency` are optional.

    Raises:
        UnknownName: There is no such price.
        InputError: A setting has no "=", or a price is repeated, missing, negative or not a finite number.
    """
    given: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"{setting!r} sets no price: write NAME=PRICE, such as prompt=0.15.")
        if name in given:
            raise InputError(f"price {name} is given twice, last as {setting!r}: give it once.")
        given[name] = value
    typed = parse_parameters(Prices, given)
    for name in ("prompt", "generated"):
        if name not in given:
            raise InputError(
                f"there is no price for {name}: add {name}=PRICE, per million tokens; 0 if free."
            )
    return Prices(**typed)
