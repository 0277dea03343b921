"""Independent paths that read and write as many tokens as another method."""

from collections.abc import Callable, Sequence
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

    Some questions get one path more than the others, spread evenly over the questions.

    Args:
        rows_of: A function from a number of paths to the rows of all questions, in a fixed order.
        tokens_of: A function from a row to its tokens.
        wanted: The mean number of tokens to reach. If even `least` paths take more, or `most` paths fewer,
            the rows are those of that number of paths.
    """
    fewer, number = rows_of(least), least
    while (low := _mean(fewer, tokens_of)) < wanted and number < most:
        more = rows_of(number + 1)
        high, size = _mean(more, tokens_of), len(more)
        if high >= wanted:
            num_more = round(size * (wanted - low) / (high - low))
            gets_more = [(i + 1) * num_more // size > i * num_more // size for i in range(size)]
            rows = [more[i] if gets_more[i] else fewer[i] for i in range(size)]
            return rows, number + num_more / size
        fewer, number = more, number + 1
    return list(fewer), float(number)


def _mean(rows: Sequence[T], tokens_of: Callable[[T], float]) -> float:
    return sum(map(tokens_of, rows)) / len(rows)
