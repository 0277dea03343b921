"""Tables of runs on the terminal."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from askance.eval.compare import MeanInterval
from askance.eval.tables import ResultTable
from askance.serve.console import plain_table

_LEAST_WIDTH, _GAP = 8, 2
_WORDS_AT_MOST = 0.6
"""Share of the line that columns of words may take from the numbers beside them: they fold, numbers don't."""


def interval_table(means: Mapping[str, MeanInterval]) -> Table:
    """Means with their intervals, by name."""
    rows = [
        (name, f"{value.mean:.3f}", f"{value.low:.3f} to {value.high:.3f}", f"{value.num_questions:,}")
        for name, value in means.items()
    ]
    return plain_table(("metric", "mean", "95 % interval", "questions"), rows, num_words=1)


def print_tables(out: Console, tables: Iterable[ResultTable]) -> None:
    """One below the other, each with its title above and its note below.

    Columns of numbers that do not fit beside the others stand below them, with the words of their rows again.
    """
    for table in tables:
        out.print(Text(f"\n{table.title}", style="bold"))
        for number, part in enumerate(_parts(table, out.width)):
            if number:
                out.print()
            out.print(_rich_table(part))
        if table.note:
            out.print(Text(table.note, style="dim"))


def _rich_table(table: ResultTable) -> Table:
    headings = [_heading(table, at) for at in range(len(table.headings))]
    rows: list[Sequence[str]] = []
    above = ""
    for first, *others in table.rows:
        rows.append(("" if table.is_grouped and first == above else first, *others))
        above = first
    shown = plain_table(headings, rows, num_words=table.num_text_columns, style="dim")
    shown.padding = (0, _GAP, 0, 0)
    for at, column in enumerate(shown.columns):
        column.no_wrap = at >= table.num_text_columns
        column.overflow = "ellipsis" if column.no_wrap else "fold"
    return shown


def _parts(table: ResultTable, width: int) -> Iterator[ResultTable]:
    """The table, in as many parts as it takes to show its numbers in lines of `width` cells."""
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
    return max(_widest(table, at), *map(cell_len, _heading(table, at).split("\n")))


def _widest(table: ResultTable, at: int) -> int:
    return max([cell_len(row[at]) for row in table.rows], default=0)


def _heading(table: ResultTable, at: int) -> str:
    """That of a column of numbers is on as many lines as it takes not to widen it, if words can be parted."""
    heading = table.headings[at]
    if at < table.num_text_columns:
        return heading
    width = max(_widest(table, at), *map(len, heading.split()), _LEAST_WIDTH)
    return "\n".join(textwrap.wrap(heading, width, break_on_hyphens=False))
