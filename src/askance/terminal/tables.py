"""Tables of runs for the terminal."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from askance.evaluation.report.tables import ResultTable
from askance.evaluation.statistics.compare import MeanInterval
from askance.terminal.console import plain_table

_LEAST_WIDTH, _GAP = 8, 2
_WORDS_AT_MOST = 0.6
"""The maximum fraction of a line that columns of words get, because words can be wrapped. Columns of numbers,
which can't be wrapped, get the rest."""


def interval_table(means: Mapping[str, MeanInterval], interval: str = "95 % interval") -> Table:
    """Return a table of means with their intervals, by name."""
    rows = [
        (name, f"{value.mean:.3f}", f"{value.low:.3f} to {value.high:.3f}", f"{value.num_questions:,}")
        for name, value in means.items()
    ]
    return plain_table(("metric", "mean", interval, "questions"), rows, num_words=1)


def print_tables(out: Console, tables: Iterable[ResultTable]) -> None:
    """Print tables one below the other, each with its title above and its note below.

    Columns of numbers that do not fit the width continue below, with the columns of words repeated.
    """
    for table in tables:
        out.print(Text(f"\n{table.title}", style="bold"))
        for number, part in enumerate(_parts(table, out.width)):
            if number:
                out.print()
            out.print(plain_table(_headings(part), _rows(part), num_words=part.num_text_columns, style="dim"))
        if table.note:
            out.print(Text(table.note, style="dim"))


def _rows(table: ResultTable) -> Iterator[tuple[str, ...]]:
    """Yield the rows. In a table with groups, only the first row of a group has its name."""
    above = ""
    for first, *others in table.rows:
        yield "" if table.is_grouped and first == above else first, *others
        above = first


def _parts(table: ResultTable, width: int) -> Iterator[ResultTable]:
    """Split a table into parts that fit into lines of `width` characters, each with all columns of words."""
    words, at = table.num_text_columns, table.num_text_columns
    room = width - min(sum(_width(table, column) + _GAP for column in range(words)), width * _WORDS_AT_MOST)
    while True:
        start, left = at, room
        while at < len(table.headings) and (at == start or _width(table, at) <= left):
            left -= _width(table, at) + _GAP
            at += 1
        yield replace(
            table,
            headings=table.headings[:words] + table.headings[start:at],
            rows=tuple(row[:words] + row[start:at] for row in table.rows),
        )
        if at == len(table.headings):
            return


def _width(table: ResultTable, at: int) -> int:
    cells = [*_headings(table)[at].split("\n"), *(row[at] for row in table.rows)]
    return max(map(cell_len, cells))


def _headings(table: ResultTable) -> list[str]:
    """Return the headings. Those of numbers are wrapped to the width of the numbers, between words."""
    headings = list(table.headings)
    for at in range(table.num_text_columns, len(headings)):
        longest = max(map(len, headings[at].split()))
        width = max([longest, _LEAST_WIDTH, *(cell_len(row[at]) for row in table.rows)])
        headings[at] = "\n".join(textwrap.wrap(headings[at], width, break_on_hyphens=False))
    return headings
