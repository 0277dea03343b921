"""Tables of runs on the terminal."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from askance.eval.tables import ResultTable


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
        is_text = at < table.num_text_columns
        shown.add_column(
            Text(heading), justify="left" if is_text else "right", no_wrap=not is_text, overflow="fold"
        )
    above = ""
    for first, *others in table.rows:
        is_repeated = table.is_grouped and first == above
        shown.add_row(*map(Text, ("" if is_repeated else first, *others)))
        above = first
    return shown
