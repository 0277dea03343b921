"""The readers of workbooks of Excel."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from askance.core.panics import panics_as
from askance.retrieval.index.formats.content import (
    Rows,
    UnreadableFile,
    check_length,
    check_size,
)
from askance.retrieval.index.formats.packages import Package, open_package, whole_number
from askance.retrieval.index.formats.spreadsheets import (
    MergedCells,
    Place,
    SheetCells,
    cell_text,
    percentage,
    sheets_as_documents,
)
from askance.retrieval.index.formats.tables import MAX_COLUMNS, TableRow

if TYPE_CHECKING:
    from python_calamine import CalamineSheet, CalamineWorkbook

MAX_DENSE_CELLS = 16_000_000
"""The largest sheet that python-calamine reads, as it needs 31 bytes for each cell, empty or not."""
MAX_DENSE_BYTES = 128_000_000
"""The largest XML of a sheet that python-calamine reads."""
MAX_MERGED = 100_000
"""How many merged cells of a sheet are repeated."""
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
_DIMENSION = re.compile(
    rb"<(?:\w+:)?dimension\s[^<>]*?\bref=[\"'][A-Z]{1,3}\d{1,7}:([A-Z]{1,3})(\d{1,7})[\"']"
)
_CORNER = re.compile(rb"<(?:\w+:)?c\s[^<>]*?\br=[\"']([A-Z]{1,3})(\d{1,7})[\"']")
_MERGED = re.compile(
    rb"<(?:\w+:)?mergeCell\s[^<>]*?\bref=[\"']([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})[\"']"
)
_FORMULA = rb"<(?:\w+:)?c\s([^<>]*)>\s*<(?:\w+:)?f[\s/>]"
_PERCENT = rb"<(?:\w+:)?c\s(?=[^<>]*\bs=[\"'](?:%s)[\"'])([^<>]*)>"
_REFERENCE = re.compile(rb"\br=[\"']([A-Z]{1,3})(\d{1,7})[\"']")


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
        merged = _MERGED.finditer(xml, max(0, xml.rfind(b"sheetData")))
        places = [_place(*match.groups()) for match in islice(merged, MAX_MERGED)]
        sheet = self._dense_sheet(name, xml)
        rows = self._streamed_rows(name, member) if sheet is None else self._dense_rows(name, sheet, xml)
        return map(MergedCells(places).fill, rows) if places else rows

    def _dense_sheet(self, name: str, xml: bytes) -> "CalamineSheet | None":
        """Return a sheet as python-calamine reads it, or None if it may be too large, or is damaged."""
        from python_calamine import CalamineError, CalamineWorkbook

        if not 0 < _num_cells(xml) <= MAX_DENSE_CELLS:
            return None
        with suppress(CalamineError), panics_as(CalamineError):
            if self._calamine is None and self._package.num_bytes(self._strings_member) <= MAX_DENSE_BYTES:
                self._calamine = CalamineWorkbook.from_path(self._path)
            sheet = self._calamine and self._calamine.get_sheet_by_name(name)
            return sheet if sheet and sheet.end else None  # it passes over what it does not expect
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


def _num_cells(xml: bytes) -> int:
    """Return the number of cells from A1 to the last cell, which a sheet declares or which is looked for."""
    declared = _DIMENSION.search(xml, 0, _HEAD_BYTES)
    corners = [declared.groups()] if declared else _CORNER.findall(xml)
    num_columns = 1 + max((_column(letters.decode()) for letters in {each[0] for each in corners}), default=0)
    return num_columns * max((int(row) for _, row in corners), default=0)


def _place(first_column: bytes, first_row: bytes, last_column: bytes, last_row: bytes) -> Place:
    return int(first_row), _column(first_column.decode()), int(last_row), _column(last_column.decode())


def _column(letters: str) -> int:
    """Return the number of a column, from 0, given its letters, such as "AB"."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


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
