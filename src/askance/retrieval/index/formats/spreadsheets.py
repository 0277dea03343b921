"""Workbooks of Excel, and what all spreadsheets have in common."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, time, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from askance.core.panics import panics_as
from askance.retrieval.index.formats.content import (
    MAX_TEXT_CHARACTERS,
    Rows,
    TextBuilder,
    UnreadableFile,
    UnreadPart,
    check_length,
    check_size,
    given_title,
)
from askance.retrieval.index.formats.fields import MAX_FIELD_CHARACTERS
from askance.retrieval.index.formats.packages import Package, open_package, whole_number
from askance.retrieval.index.formats.tables import (
    MAX_COLUMNS,
    MAX_REPEATED_CHARACTERS,
    TableRow,
    check_columns,
    rest_as_document,
    rows_as_documents,
)

if TYPE_CHECKING:
    from python_calamine import CalamineSheet, CalamineWorkbook

MAX_TABLE_CHARACTERS = 400_000_000
"""The most characters in the cells of a spreadsheet, where each cell counts as one more."""
MAX_DENSE_CELLS = 16_000_000
"""The largest sheet that python-calamine reads, as it needs 31 bytes for each cell, empty or not."""
MAX_DENSE_BYTES = 128_000_000
"""The largest XML of a sheet that python-calamine reads."""
MAX_MERGED = 100_000
"""How many merged cells of a sheet are repeated."""
MAX_ACTIVE = 1_000
"""How many merged cells of a row are repeated."""
_HEAD_BYTES = 10_000
_SECONDS_PER_DAY = 86_400
_BUILT_IN = {
    **dict.fromkeys((9, 10), "percent"),
    **dict.fromkeys((*range(14, 23), *range(27, 37), 45, 47, *range(50, 59)), "date"),
    46: "duration",
}
"""What numbers with the formats that are built into Excel show."""
_QUOTED = re.compile(r'"[^"]*"|\\.|\[[^\[\]]*\]')
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_CELL = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_RANGE = re.compile(r"([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})")
_DIMENSION = re.compile(rb'<(?:\w+:)?dimension\s[^<>]*?\bref="([A-Z0-9:]{1,21})"')
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?\bref="([A-Z0-9:]{1,21})"')
_FORMULA = rb"<(?:\w+:)?c\s([^<>]*)>\s*<(?:\w+:)?f[\s/>]"
_PERCENT = rb"<(?:\w+:)?c\s(?=[^<>]*\bs=[\"'](?:%s)[\"'])([^<>]*)>"
_REFERENCE = re.compile(rb"\br=[\"']([A-Z]{1,3})(\d{1,7})[\"']")
Place = tuple[int, int, int, int]
"""The first row and column and the last ones of a merged cell. Rows count from 1, columns from 0."""


def read_xlsx(path: Path) -> Rows:
    """Yield the rows of a workbook as documents, as those of a CSV file.

    Formulas have the values that were saved with them. Dates, times and durations are written as 2024-03-01,
    08:30:00 and 26:05:00, and percentages as 12.5%.

    Raises:
        UnreadableFile: The file is damaged, encrypted, too large, or holds only formulas without values.
    """
    with open_package(path) as package:
        book = _Workbook(path, package)
        title, author = package.title_and_author()
        sheets = ((name, book.rows(name, member)) for name, member in book.sheets)
        yield from sheets_as_documents(
            sheets, book.num_missing, path.stem, title, author, has_several=len(book.sheets) > 1
        )


def read_xls(path: Path) -> Rows:
    """Yield the rows of a workbook in the older format of Excel as those of the newer one.

    Raises:
        UnreadableFile: The file is damaged, encrypted or too large.
    """
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum

    with path.open("rb") as file:
        if file.read(2) == b"PK":
            yield from read_xlsx(path)
            return
    check_size(path.stat().st_size)
    try:
        with panics_as(CalamineError), CalamineWorkbook.from_path(path) as book:
            names = [each.name for each in book.sheets_metadata if each.typ == SheetTypeEnum.WorkSheet]
            sheets = ((name, _xls_rows(book.get_sheet_by_name(name))) for name in names)
            yield from sheets_as_documents(sheets, {}, path.stem, "", "", has_several=len(names) > 1)
    except PasswordError as error:
        raise UnreadableFile("encrypted; remove its password first") from error
    except CalamineError as error:
        raise UnreadableFile(f"damaged, or not of the kind that its name says ({error})") from error


def _xls_rows(sheet: "CalamineSheet") -> Iterator[TableRow]:
    ranges = sheet.merged_cell_ranges or []
    merged = MergedCells((first[0] + 1, first[1], last[0] + 1, last[1]) for first, last in ranges)
    return map(merged.fill, _rows_of(sheet, SheetCells(), {}))


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
            if has_others and self._num_left > 0:
                cells += [""] * (last + 1 - len(cells))
                cells[first : last + 1] = [cell or text for cell in cells[first : last + 1]]
        return row._replace(cells=cells) if filled else row


class _Workbook:
    """A workbook whose sheets are read by python-calamine or, if too large for that, as a stream of XML.

    Attributes:
        sheets: The name and the member of each sheet.
        num_missing: The number of formulas without saved values, by sheet, as far as it has been read.
    """

    def __init__(self, path: Path, package: Package) -> None:
        main = package.main_part("xl/workbook.xml")
        relations = package.relations(main)
        self.sheets = [
            (given.get("name", ""), relations.get(given.get("id", ""), ""))
            for given in package.attributes(main, "sheet")
        ]
        self.num_missing = Counter[str]()
        self._path, self._package = path, package
        self._kinds = _kinds_of_styles(package, package.part("styles", "xl/styles.xml", main))
        settings = package.attributes(main, "workbookPr")
        is_1904 = any(given.get("date1904") in ("1", "true") for given in settings)
        self._epoch = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30)
        self._strings_member = package.part("sharedStrings", "xl/sharedStrings.xml", main)
        self._cells = SheetCells()
        self._calamine: CalamineWorkbook | None = None

    def rows(self, name: str, member: str) -> Iterator[TableRow]:
        """Yield the rows of a sheet, with the texts of merged cells repeated."""
        xml = self._package.read(member) if 0 < self._package.num_bytes(member) <= MAX_DENSE_BYTES else b""
        ranges = (_RANGE.fullmatch(match[1].decode()) for match in islice(_MERGED.finditer(xml), MAX_MERGED))
        places = [_place(match) for match in ranges if match]
        sheet = self._dense_sheet(name, xml)
        rows = self._streamed_rows(name, member) if sheet is None else self._dense_rows(name, sheet, xml)
        return map(MergedCells(places).fill, rows) if places else rows

    def _dense_sheet(self, name: str, xml: bytes) -> "CalamineSheet | None":
        """Return a sheet as python-calamine reads it, or None if it may be too large, or is damaged."""
        from python_calamine import CalamineError, CalamineWorkbook

        dimension = _DIMENSION.search(xml, 0, _HEAD_BYTES)
        place = _RANGE.fullmatch(dimension[1].decode()) if dimension else None
        if place is None or int(place[4]) * (_column(place[3]) + 1) > MAX_DENSE_CELLS:
            return None
        with suppress(CalamineError), panics_as(CalamineError):
            if self._calamine is None and self._package.num_bytes(self._strings_member) <= MAX_DENSE_BYTES:
                self._calamine = CalamineWorkbook.from_path(self._path)
            return self._calamine and self._calamine.get_sheet_by_name(name)
        return None

    def _dense_rows(self, name: str, sheet: "CalamineSheet", xml: bytes) -> Iterator[TableRow]:
        styles = [str(number).encode() for number, kind in enumerate(self._kinds) if kind == "percent"]
        percentages = _places(_PERCENT % b"|".join(styles), xml) if styles else {}
        formulas = _places(_FORMULA, xml) if b"<f" in xml or b":f" in xml else {}
        self.num_missing[name] += sum(map(len, formulas.values()))
        for row in _rows_of(sheet, self._cells, percentages):
            if row.line in formulas:
                cells = [row.cells[column] for column in formulas[row.line] if column < len(row.cells)]
                self.num_missing[name] -= len(cells) - cells.count("")
            yield row

    def _streamed_rows(self, name: str, member: str) -> Iterator[TableRow]:
        cells, number, column, kind, style = self._cells, 0, 0, "", 0
        value, is_value, has_formula = "", False, False
        for event in self._package.events(member):
            element, is_start, given = event.name, event.kind == "start", event.attributes
            if event.kind == "text":
                value += element if is_value else ""
            elif element in ("v", "t"):
                is_value = is_start
            elif element == "f":
                has_formula = True
            elif element == "row" and is_start:
                number = whole_number(given.get("r"), number + 1)
            elif element == "row":
                yield TableRow(number, cells.end_row())
            elif element == "c" and is_start:
                reference = _CELL.fullmatch(given.get("r", ""))
                column = min(_column(reference[1]), MAX_COLUMNS - 1) if reference else cells.num_columns
                kind, style = given.get("t", "n"), whole_number(given.get("s"), 0)
                value, has_formula = "", False
            elif element == "c":
                self.num_missing[name] += has_formula and not value and kind != "str"
                cells.add("", max(0, column - cells.num_columns))
                cells.add(self._text(value, kind, style))
            elif element == "rPh":  # how to read Chinese characters in Japanese: it repeats the text
                is_value = False

    def _text(self, value: str, kind: str, style: int) -> str:
        if kind == "s":
            index = whole_number(value, -1)
            return self._strings[index] if 0 <= index < len(self._strings) else ""
        if kind == "b":
            return cell_text(value == "1")
        if kind == "n":
            with suppress(ValueError, OverflowError):
                shows = self._kinds[style] if style < len(self._kinds) else ""
                number = float(value)
                return percentage(number) if shows == "percent" else cell_text(self._typed(number, shows))
        return "" if kind == "e" else value

    def _typed(self, number: float, shows: str) -> object:
        """Return a number, or the date, time of day or duration that it shows.

        Raises:
            OverflowError: There is no such date.
        """
        span = timedelta(seconds=round(number * _SECONDS_PER_DAY)) if shows else timedelta()
        if shows == "duration":
            return span
        if shows == "date":
            return self._epoch + span if span >= timedelta(days=1) else (datetime.min + span).time()
        return number

    @cached_property
    def _strings(self) -> list[str]:
        return _shared_strings(self._package, self._strings_member)


def _rows_of(
    sheet: "CalamineSheet", cells: SheetCells, percentages: Mapping[int, list[int]]
) -> Iterator[TableRow]:
    for line, values in enumerate(sheet.iter_rows(), start=1):
        texts = [value if isinstance(value, str) else cell_text(value) for value in values]
        for column in percentages.get(line, ()):
            value = values[column] if column < len(values) else ""
            texts[column : column + 1] = (
                [percentage(value)] if isinstance(value, float) else [cell_text(value)]
            )
        yield TableRow(line, cells.row(texts))


def _places(pattern: bytes, xml: bytes) -> dict[int, list[int]]:
    """Return the columns of the cells that a pattern finds, by row. Parsing the XML would take far longer."""
    columns: dict[int, list[int]] = {}
    for match in re.finditer(pattern, xml):
        reference = _REFERENCE.search(match[1])
        if reference and b't="str"' not in match[1]:
            columns.setdefault(int(reference[2]), []).append(_column(reference[1].decode()))
    return columns


def _place(match: re.Match[str]) -> Place:
    return int(match[2]), _column(match[1]), int(match[4]), _column(match[3])


def _column(letters: str) -> int:
    """Return the number of a column, from 0, given its letters, such as "AB"."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


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


def _shared_strings(package: Package, member: str) -> list[str]:
    strings, pieces, is_text, num_characters = list[str](), list[str](), False, 0
    is_reading_aid = False
    for event in package.events(member):
        if event.kind == "text":
            if is_text and not is_reading_aid:
                pieces.append(event.name)
        elif event.name == "t":
            is_text = event.kind == "start"
        elif event.name == "rPh":
            is_reading_aid = event.kind == "start"
        elif event.name == "si" and event.kind == "end":
            strings.append("".join(pieces))
            pieces = []
            num_characters += len(strings[-1])
            check_length(num_characters)
    return strings


def _kinds_of_styles(package: Package, member: str) -> list[str]:
    """Return what numbers with each cell style show: "date", "duration", "percent", or "" for a number.

    A date within the first day is a time of day.
    """
    formats, kinds, is_cell_style = dict(_BUILT_IN), list[str](), False
    for event in package.events(member):
        given = event.attributes
        if event.name == "cellXfs":
            is_cell_style = event.kind == "start"
        elif event.kind == "start" and event.name == "numFmt":
            code = given.get("formatCode", "")
            bare = _QUOTED.sub("", code)
            is_date = re.search("[ymdhs]", bare, re.IGNORECASE)
            formats[whole_number(given.get("numFmtId"), 0)] = (
                "duration"
                if _ELAPSED.search(code)
                else "date"
                if is_date
                else "percent"
                if "%" in bare
                else ""
            )
        elif event.kind == "start" and event.name == "xf" and is_cell_style:
            kinds.append(formats.get(whole_number(given.get("numFmtId"), 0), ""))
    return kinds
