"""The consoles that commands print to."""

import os
import re
from typing import Any

from rich.console import Console, ConsoleDimensions

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


out = PlainConsole()
err = PlainConsole(stderr=True)
