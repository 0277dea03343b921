"""The consoles that commands print to, and the tables on them."""

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleDimensions
from rich.table import Table
from rich.text import Text

from askance.text.printable import printable

_UNWRAPPED_COLUMNS = 1_000_000
"""More than any line that is printed has."""


class PlainConsole(Console):
    """A console that leaves text as it is: no emoji codes, no highlighted numbers.

    Lines are wrapped to the width of a terminal. In a pipe or a file every line stays whole, unless the
    environment variable COLUMNS states a width.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, emoji=False)

    @property
    def size(self) -> ConsoleDimensions:
        """Columns and lines of the terminal."""
        size = super().size
        if self.is_terminal or os.environ.get("COLUMNS"):
            return size
        return ConsoleDimensions(_UNWRAPPED_COLUMNS, size.height)

    @size.setter
    def size(self, size: tuple[int, int]) -> None:
        self.width, self.height = size

    def print(self, *objects: Any, **how: Any) -> None:
        """See `Console.print`. Outside a terminal no line ends in the spaces that fill up a column."""
        if self.is_terminal:
            super().print(*objects, **how)
            return
        with self.capture() as printed:
            super().print(*objects, **how)
        self.file.write(re.sub(r" +$", "", printed.get(), flags=re.MULTILINE))


def print_plain(console: Console, text: object, style: str = "") -> None:
    """Print a text from anywhere as it is: nothing in it commands the terminal, and no line is wrapped."""
    console.print(printable(str(text)), style=style, markup=False, soft_wrap=True)


Row = Sequence[str | int | Text]


def plain_table(
    headings: Sequence[str], rows: Iterable[Row], *, num_words: int = 99, style: str = "bold"
) -> Table:
    """A table without lines, of texts from anywhere and counts.

    Args:
        headings: of the columns; none for a table without a head.
        num_words: how many columns hold words; those behind them hold numbers, which stand on the right, as
            counts do in any column.
        style: of the headings.
    """
    table, shown = Table(box=None, pad_edge=False, header_style=style, show_header=bool(headings)), [*rows]
    for at, heading in enumerate(headings):
        is_right = at >= num_words or any(isinstance(row[at], int) for row in shown)
        table.add_column(Text(heading), justify="right" if is_right else "left")
    for row in shown:
        table.add_row(*map(_cell, row))
    return table


def _cell(value: str | int | Text) -> Text:
    if isinstance(value, Text):
        return value
    return Text(f"{value:,}" if isinstance(value, int) else printable(value))


out = PlainConsole()
err = PlainConsole(stderr=True)
