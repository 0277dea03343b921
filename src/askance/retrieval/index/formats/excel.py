"""The readers of workbooks of Excel."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property, reduce
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from askance.core.panics import panics_as
from askance.retrieval.index.formats.content import Rows, check_length, check_size, unreadable
from askance.retrieval.index.formats.packages import DAMAGED, Package, open_package, whole_number
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
    encrypted = unreadable("encrypted; remove its password first", PasswordError)
    with unreadable(DAMAGED, CalamineError), encrypted, panics_as(CalamineError):
        book = CalamineWorkbook.from_path(path)
        names = [each.name for each in book.sheets_metadata if each.typ == SheetTypeEnum.WorkSheet]
        sheets = ((name, _xls_rows(book.get_sheet_by_name(name))) for name in names)
        yield from sheets_as_documents(sheets, {}, path.stem, "", "", has_several=len(names) > 1)


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
            saved = (row.cells[column : column + 1] for column in formulas.get(row.line, ()))
            self.num_missing[name] -= sum(any(cell) for cell in saved)
            yield row

    def _streamed_rows(self, name: str, member: str) -> Iterator[TableRow]:
        cells, number = self._cells, 0
        for row in self._package.elements(member, "row"):
            number = whole_number(row.get("r"), number + 1)
            for cell in row.iter("c"):
                kind = cell.get("t", "n")
                value = _written(cell) if kind == "inlineStr" else cell.findtext("v", "")
                self.num_missing[name] += kind != "str" and not value and cell.find("f") is not None
                reference = _CELL.fullmatch(cell.get("r", ""))
                column = min(_column(reference[1].encode()), MAX_COLUMNS - 1) if reference else 0
                cells.add("", max(0, column - cells.num_columns))
                cells.add(self._text(value, kind, whole_number(cell.get("s"), 0)))
            yield TableRow(number, cells.end_row())

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
        strings, num_characters = list[str](), 0
        for item in self._package.elements(self._strings_member, "si"):
            strings.append(_written(item))
            num_characters += len(strings[-1])
            check_length(num_characters)
        return strings


def _written(element: Element) -> str:
    """Return the value or the text in an element, without the text on how to read Chinese characters."""
    aids = {text for aid in element.iter("rPh") for text in aid}
    return "".join(each.text or "" for each in element.iter() if each.tag in ("v", "t") and each not in aids)


def _rows_of(
    sheet: "CalamineSheet", cells: SheetCells, percentages: Mapping[int, list[int]]
) -> Iterator[TableRow]:
    for line, values in enumerate(sheet.iter_rows(), start=1):
        texts = [value if isinstance(value, str) else cell_text(value) for value in values]
        for column in percentages.get(line, ()):
            if column < len(values) and isinstance(value := values[column], float):
                texts[column] = percentage(value)
        yield TableRow(line, cells.row(texts))


def _places(pattern: bytes, xml: bytes) -> dict[int, list[int]]:
    """Return the columns of the cells that a pattern finds, by row. Parsing the XML would take far longer."""
    columns: dict[int, list[int]] = {}
    for match in re.finditer(pattern, xml):
        reference = _REFERENCE.search(match[1])
        if reference and b't="str"' not in match[1]:
            columns.setdefault(int(reference[2]), []).append(_column(reference[1]))
    return columns


def _num_cells(xml: bytes) -> int:
    """Return the number of cells from A1 to the last cell, which a sheet declares or which is looked for."""
    declared = _DIMENSION.search(xml, 0, _HEAD_BYTES)
    corners = [declared.groups()] if declared else _CORNER.findall(xml)
    num_columns = 1 + max((_column(letters) for letters in {each[0] for each in corners}), default=0)
    return num_columns * max((int(row) for _, row in corners), default=0)


def _place(first_column: bytes, first_row: bytes, last_column: bytes, last_row: bytes) -> Place:
    return int(first_row), _column(first_column), int(last_row), _column(last_column)


def _column(letters: bytes) -> int:
    """Return the number of a column, from 0, given its letters, such as "AB"."""
    return reduce(lambda number, letter: 26 * number + letter - ord("A") + 1, letters, 0) - 1


def _kinds_of_styles(package: Package, member: str) -> list[str]:
    """Return what numbers with each cell style show: "date", "duration", "percent", or "" for a number.

    A date within the first day is a time of day.
    """
    styles, kinds = package.tree(member), dict(_BUILT_IN)
    for each in styles.iter("numFmt"):
        kinds[whole_number(each.get("numFmtId"), 0)] = _kind(each.get("formatCode", ""))
    cell_styles = (each for part in styles.iter("cellXfs") for each in part.iter("xf"))
    return [kinds.get(whole_number(each.get("numFmtId"), 0), "") for each in cell_styles]


def _kind(code: str) -> str:
    """Return what numbers with a format show, given its code."""
    bare = _QUOTED.sub("", code)
    if _ELAPSED.search(code):
        return "duration"
    if re.search("[ymdhs]", bare, re.IGNORECASE):
        return "date"
    return "percent" if "%" in bare else ""
