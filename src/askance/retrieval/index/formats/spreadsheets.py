"""Spreadsheets of any program: their sheets as documents, and the bounds and merged cells of their rows."""

from collections.abc import Iterable, Mapping
from datetime import datetime, time, timedelta

from askance.retrieval.index.formats.content import (
    MAX_TEXT_CHARACTERS,
    Rows,
    TextBuilder,
    UnreadableFile,
    UnreadPart,
    given_title,
)
from askance.retrieval.index.formats.fields import MAX_FIELD_CHARACTERS
from askance.retrieval.index.formats.tables import (
    MAX_COLUMNS,
    MAX_REPEATED_CHARACTERS,
    TableRow,
    check_columns,
    rest_as_document,
    rows_as_documents,
)

MAX_TABLE_CHARACTERS = 400_000_000
"""The most characters in the cells of a spreadsheet, where each cell counts as one more."""
MAX_ACTIVE = 1_000
"""How many merged cells of a row are repeated."""
Place = tuple[int, int, int, int]
"""The first row and column and the last ones of a merged cell. Rows count from 1, columns from 0."""


def sheets_as_documents(
    sheets: Iterable[tuple[str, Iterable[TableRow]]],
    num_missing: Mapping[str, int],
    file_name: str,
    title: str,
    author: str,
    *,
    has_several: bool,
) -> Rows:
    """Yield the rows of a spreadsheet as documents, then the sheets whose formulas have no saved values.

    Args:
        sheets: The name and the rows of each sheet (see `rows_as_documents`).
        num_missing: The number of formulas without saved values by sheet, once its rows have been read.
        file_name: The title of rows if neither they nor the properties of the file have one.
        has_several: There are several sheets, so each row names its own.

    Raises:
        UnreadableFile: There are only formulas without values, or too many columns.
    """
    rest, has_rows = TextBuilder(), False
    for name, rows in sheets:
        sheet = name if has_several else ""
        for row in rows_as_documents(rows, given_title(title) or file_name, rest, sheet, author):
            has_rows = True
            yield row
    whole = list(rest_as_document(rest, title, author))
    unread = [
        UnreadPart(
            f"sheet {name[:MAX_FIELD_CHARACTERS]}",
            f"{number:,} formula{'s' * (number > 1)} without saved values; "
            "save the file in a spreadsheet program",
        )
        for name, number in num_missing.items()
        if number
    ]
    if unread and not has_rows and not whole:
        raise UnreadableFile(f"holds only {unread[0].reason}")
    yield from whole
    yield from unread


class SheetCells:
    """The cells of one row of a spreadsheet after the other, without the empty cells at the end of a row.

    A few bytes of a file can stand for many cells, so they are counted before they are made.
    """

    def __init__(self) -> None:
        self._cells: list[str] = []
        self._num_empty = self._num_characters = self._num_in_table = 0

    @property
    def num_columns(self) -> int:
        """The number of cells in the row so far, with the empty ones at its end."""
        return len(self._cells) + self._num_empty

    def add(self, text: str, num_repeated: int = 1) -> None:
        """Append a cell to the row, once or more often.

        Raises:
            UnreadableFile: The row has too many columns or characters, or the file too many characters.
        """
        if not text.strip():
            self._num_empty += num_repeated
            return
        check_columns(self.num_columns + num_repeated)
        self._count(num_repeated * (1 + len(text)) + self._num_empty)
        self._cells += [""] * self._num_empty + [text] * num_repeated
        self._num_empty = 0

    def end_row(self) -> list[str]:
        """Return the cells of the row, and begin the next row."""
        cells, self._cells, self._num_empty, self._num_characters = self._cells, [], 0, 0
        return cells

    def row(self, cells: list[str]) -> list[str]:
        """Return the cells of a row, which are counted.

        Raises:
            UnreadableFile: The row or the file has too many characters.
        """
        self._num_characters = 0
        self._count(len(cells) + sum(map(len, cells)))
        return cells

    def _count(self, num_characters: int) -> None:
        self._num_characters += num_characters
        self._num_in_table += num_characters
        if self._num_characters > MAX_TEXT_CHARACTERS:
            raise UnreadableFile(f"a row of more than {MAX_TEXT_CHARACTERS:,} characters")
        if self._num_in_table > MAX_TABLE_CHARACTERS:
            raise UnreadableFile(f"more than {MAX_TABLE_CHARACTERS:,} cells and characters; split it")


class MergedCells:
    """The merged cells of a sheet, whose short texts are repeated in rows that have other cells.

    This ends after many characters, as a few bytes of a file can stand for many cells.
    """

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self._waiting = sorted(places, reverse=True)
        self._active: list[tuple[Place, str]] = []
        self._num_left = MAX_TEXT_CHARACTERS

    def add(self, place: Place) -> None:
        """Add a merged cell that begins in the next row to be filled."""
        self._waiting.append(place)

    def fill(self, row: TableRow) -> TableRow:
        """Return the next row with the texts of merged cells in all of their columns and rows."""
        if self._num_left <= 0:
            return row
        self._active = [(place, text) for place, text in self._active if place[2] >= row.line]
        while self._waiting and self._waiting[-1][0] <= row.line:
            place = self._waiting.pop()
            text = row.cells[place[1]] if place[0] == row.line and place[1] < len(row.cells) else ""
            if 0 < len(text) <= MAX_REPEATED_CHARACTERS and len(self._active) < MAX_ACTIVE:
                self._active.append((place, text))
        filled = [column for column, cell in enumerate(row.cells) if cell] if self._active else []
        cells = list(row.cells)
        for (start, first, _, last), text in self._active if filled else ():
            last = min(last, MAX_COLUMNS - 1)
            self._num_left -= (last + 1 - first) * (1 + len(text))
            has_others = filled[0] < first or filled[-1] > last or (first > 0 and row.line == start)
            if has_others:
                cells += [""] * (last + 1 - len(cells))
                cells[first : last + 1] = [cell or text for cell in cells[first : last + 1]]
        return row._replace(cells=cells) if filled else row


def cell_text(value: object) -> str:
    """Return the value of a cell as text."""
    if isinstance(value, float):
        return f"{value:.15g}"  # as programs show it: not 0.30000000000000004
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        hours, rest = divmod(abs(seconds), 3_600)
        return f"{'-' * (seconds < 0)}{hours:02}:{rest // 60:02}:{rest % 60:02}"
    if isinstance(value, datetime):
        value = (value + timedelta(seconds=0.5)).replace(microsecond=0)
        return str(value if value.time() != time() else value.date())
    return str(value)


def percentage(value: float) -> str:
    """Return a fraction as a percentage."""
    return f"{100 * value:.15g}%"
