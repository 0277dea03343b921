"""The consoles that commands print to, and plain tables."""

import inspect
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleDimensions
from rich.table import Table
from rich.text import Text

from askance.core.safe_text import printable

_UNWRAPPED_COLUMNS = 1_000_000
"""A width that no printed line exceeds."""


class PlainConsole(Console):
    """A console that does not change text: it replaces no emoji codes and highlights no numbers.

    Lines are wrapped to the width of a terminal. In a pipe or a file every line stays whole, unless the
    environment variable COLUMNS sets a width.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, emoji=False)

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        """The columns and lines of the terminal."""
        size = super().size
        if self.is_terminal or os.environ.get("COLUMNS"):
            return size
        return ConsoleDimensions(_UNWRAPPED_COLUMNS, size.height)

    def print(self, *objects: Any, **how: Any) -> None:
        """Print as `Console.print` does, but without trailing spaces if the output is not a terminal."""
        if self.is_terminal:
            super().print(*objects, **how)
            return
        with self.capture() as printed:
            super().print(*objects, **how)
        self.file.write(re.sub(r" +$", "", printed.get(), flags=re.MULTILINE))


def print_plain(console: Console, text: object, style: str = "") -> None:
    """Print untrusted text literally: control characters are escaped, and no line is wrapped."""
    console.print(printable(str(text)), style=style, markup=False, soft_wrap=True)


Row = Sequence[str | int | Text]


def plain_table(
    headings: Sequence[str], rows: Iterable[Row], *, num_words: int = 99, style: str = "bold"
) -> Table:
    """Return a table without lines between its cells, for untrusted strings and counts.

    Args:
        headings: The headings of the columns; none for a table without a header.
        num_words: The number of leading columns that hold words. All other columns, and every column that
            contains an integer, are aligned to the right.
    """
    table, shown = Table(box=None, pad_edge=False, header_style=style, show_header=bool(headings)), [*rows]
    for column, heading in enumerate(headings):
        is_right = column >= num_words or any(isinstance(row[column], int) for row in shown)
        table.add_column(Text(heading), overflow="fold", no_wrap=is_right)
        table.columns[-1].justify = "right" if is_right else "left"
    for row in shown:
        table.add_row(*map(_cell, row))
    return table


def _cell(value: str | int | Text) -> Text:
    if isinstance(value, Text):
        return value
    return Text(f"{value:,}" if isinstance(value, int) else printable(value))


out = PlainConsole()
err = PlainConsole(stderr=True)


def described(docstring: str | None, section: str) -> dict[str, str]:
    """Return the entries of a docstring section, such as "Args", by name. Each entry is put on one line."""
    body = inspect.cleandoc(docstring or "").partition(f"\n\n{section}:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", body, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
