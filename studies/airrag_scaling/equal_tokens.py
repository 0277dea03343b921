"""Independent paths that read and write as many tokens as another method."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeVar

T = TypeVar("T")


def paths_at_equal_tokens(
    rows_of: Callable[[int], Sequence[T]],
    tokens_of: Callable[[T], float],
    wanted: float,
    *,
    least: int = 1,
    most: int = 1024,
) -> tuple[list[T], float]:
    """Return rows of independent paths with `wanted` tokens on average, and the mean number of paths.

    Some questions get one path more than the others, spread evenly over the questions. The number of paths
    is found by bisection. Every other step interpolates instead, because tokens grow about in proportion to
    the number of paths.

    Args:
        rows_of: A function from a number of paths to the rows of all questions, in a fixed order. More paths
            have more tokens.
        wanted: The mean number of tokens to reach. If even `least` paths take more, or `most` paths fewer,
            the rows are those of that number of paths.
    """
    number, fewer, more = least, rows_of(least), None
    low, high, above, halves = _mean(fewer, tokens_of), wanted, most + 1, False
    while low < wanted and above - number > 1:
        if more is None:
            guess = ceil(number * wanted / low)
        elif halves:
            guess = (number + above) // 2
        else:
            guess = number + int((above - number) * (wanted - low) / (high - low))
        guess, halves = min(max(guess, number + 1), above - 1), more is not None and not halves
        rows = rows_of(guess)
        if (mean := _mean(rows, tokens_of)) < wanted:
            number, fewer, low = guess, rows, mean
        else:
            above, more, high = guess, rows, mean
    if low >= wanted or more is None:
        return list(fewer), float(number)
    num_more = round(len(more) * (wanted - low) / (high - low))
    gets_more = [(i + 1) * num_more // len(more) > i * num_more // len(more) for i in range(len(more))]
    rows = [more[i] if gets_more[i] else fewer[i] for i in range(len(more))]
    return rows, number + num_more / len(more)


def _mean(rows: Sequence[T], tokens_of: Callable[[T], float]) -> float:
    return sum(map(tokens_of, rows)) / len(rows)
