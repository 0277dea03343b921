"""What answering cost in money, at prices that the user names."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from askance.core.errors import InputError, UnknownName
from askance.core.types import Usage

DEFAULT_CURRENCY = "USD"
_TOKENS_PRICED = 1_000_000
_REQUIRED = ("prompt", "generated")


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in one currency; the same for every model that a method calls.

    Attributes:
        prompt: of a million tokens of prompts.
        generated: of a million tokens generated, kept or not.
        reused: of a million tokens of prompts that came from a cache; None charges them as others.
        search: of one search.

    Raises:
        InputError: a price below 0 or without end, or no currency.
    """

    prompt: float
    generated: float
    reused: float | None = None
    search: float = 0.0
    currency: str = DEFAULT_CURRENCY

    def __post_init__(self) -> None:
        for name in ("prompt", "generated", "reused", "search"):
            price = getattr(self, name)
            if price is not None and not (math.isfinite(price) and price >= 0):
                raise InputError(f"price {name}={price}: give a finite number that is not below 0.")
        if not self.currency:
            raise InputError("the currency of the prices is empty: name it, as in currency=EUR.")


def cost(usage: Usage, prices: Prices) -> float:
    """The price of one question, in the currency of `prices`.

    1,000,000 tokens of prompts, half of them from a cache, 100,000 generated and 2 searches, at 2, 1
    (reused), 8 and 0.01: 1 + 0.5 + 0.8 + 0.02 = 2.32.
    """
    reused = prices.prompt if prices.reused is None else prices.reused
    tokens = (
        (usage.prompt_tokens - usage.reused_tokens) * prices.prompt
        + usage.reused_tokens * reused
        + usage.generated_tokens * prices.generated
    )
    return tokens / _TOKENS_PRICED + usage.searches * prices.search


def read_prices(settings: Iterable[str]) -> Prices:
    """The prices of ``NAME=PRICE`` texts: prompt, generated, and if there are, reused, search and currency.

    Raises:
        UnknownName: no such price.
        InputError: a text without "=", a price twice, missing, no number, below 0 or without end.
    """
    texts: dict[str, str] = {}
    for setting in settings:
        name, value = _named(setting)
        if name in texts:
            raise InputError(f"price {name} is given twice, last as {setting!r}: give it once.")
        texts[name] = value
    numbers = {name: _number(name, value) for name, value in texts.items() if name != "currency"}
    for name in _REQUIRED:
        if name not in texts:
            raise InputError(
                f"there is no price for {name}: add {name}=PRICE, per million tokens; 0 if free."
            )
    return Prices(currency=texts.get("currency", DEFAULT_CURRENCY), **numbers)


def _named(setting: str) -> tuple[str, str]:
    name, equals, value = setting.partition("=")
    if not equals:
        raise InputError(f"{setting!r} sets no price: write NAME=PRICE, such as prompt=0.15.")
    known = [field.name for field in fields(Prices)]
    if name not in known:
        raise UnknownName("price", name, known, place=f"in {setting!r}")
    return name, value


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InputError(f"price {name}={value}: {value!r} is no number; write {name}=0.15.") from None
