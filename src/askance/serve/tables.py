"""Tables of runs on the terminal."""

import textwrap
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from askance.eval.tables import ResultTable

_LEAST_WIDTH = 8


def print_tables(out: Console, tables: Iterable[ResultTable]) -> None:
    """One below the other, each with its title above and its note below."""
    for table in tables:
        out.print(Text(f"\n{table.title}", style="bold"))
        out.print(_rich_table(table))
        if table.note:
            out.print(Text(table.note, style="dim"))


def _rich_table(table: ResultTable) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for at, heading in enumerate(table.headings):
        if at < table.num_text_columns:
            shown.add_column(Text(heading), overflow="fold")
        else:
            width = max([len(row[at]) for row in table.rows], default=0)
            shown.add_column(Text(_narrowed(heading, width)), justify="right", no_wrap=True)
    above = ""
    for first, *others in table.rows:
        is_repeated = table.is_grouped and first == above
        shown.add_row(*map(Text, ("" if is_repeated else first, *others)))
        above = first
    return shown


def _narrowed(heading: str, width: int) -> str:
    """On as many lines as it takes not to widen a column of numbers, as far as words can be parted."""
    longest = max(map(len, heading.split()))
    return "\n".join(textwrap.wrap(heading, max(width, longest, _LEAST_WIDTH), break_on_hyphens=False))
