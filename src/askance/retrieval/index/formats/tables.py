"""Tables: CSV and TSV files, and spreadsheets."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

from askance.core.records import opened
from askance.retrieval.index.formats.content import (
    MAX_TEXT_CHARACTERS,
    DocumentRow,
    Mark,
    Rows,
    TextBuilder,
    UnreadableFile,
    UnreadPart,
    check_length,
    given_title,
)
from askance.retrieval.index.formats.encodings import GZIPPED
from askance.retrieval.index.formats.fields import MAX_FIELD_CHARACTERS, author_field, cell_fields
from askance.retrieval.index.formats.packages import Package, XmlEvent, open_package, whole_number

MAX_COLUMNS = 16_384
"""As many as a sheet of a spreadsheet program has."""
MAX_TABLE_CHARACTERS = 400_000_000
"""The most characters in the cells of a spreadsheet, where each cell counts as one more."""
_DELIMITERS = ",;\t|"
_TITLES = ("title", "name", "subject")
_NUMBER = re.compile(r"[-+]?[.,:/ -]*\d[\d.,:/%€$£ -]*")
_DATE_FORMATS = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
_QUOTED = re.compile(r'"[^"]*"|\\.|\[[^\[\]]*\]')
_CELL = re.compile(r"([A-Z]{1,3})\d+")
_SECONDS_PER_DAY = 86_400


def delimiter_of(path: Path, encoding: str) -> str:
    """Return the delimiter of the cells of a CSV or TSV file, found in its first line that is not blank."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if ".tsv" in suffixes:
        return "\t"
    with opened(path, encoding=encoding) as file:
        first = next((line for line in file if line.strip()), "")
    bare = re.sub(r'"[^"]*"', "", first)
    return max(_DELIMITERS, key=bare.count)


def read_delimited(path: Path, encoding: str, delimiter: str) -> Rows:
    """Yield the rows of a CSV or TSV file as documents, or the whole file if it has no header."""
    name = Path(path.stem).stem if path.suffix.lower() == GZIPPED else path.stem
    rest = TextBuilder()
    with opened(path, encoding=encoding, newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        try:
            yield from rows_as_documents(((reader.line_num, cells) for cells in reader), name, rest)
        except csv.Error as error:
            raise UnreadableFile(f"line {reader.line_num}: {error}") from error
    yield from rest_as_document(rest)


def rows_as_documents(
    rows: Iterable[tuple[int, Sequence[str]]],
    title: str,
    rest: TextBuilder,
    sheet: str = "",
    author: str = "",
) -> Iterator[DocumentRow]:
    """Yield each row under a header as a document that repeats the names of the columns, as fields as well.

    The first row that is not empty is the header if it has several cells, all filled, distinct, no numbers
    and of at most 1,000 characters. The rows of a table without header are appended to `rest`.

    Args:
        rows: The line number and the cells of each row.
        title: The title of rows without a column "title", "name" or "subject".
        sheet: The name of the sheet, if there are several.
        author: The author of the file, who is a field of each row unless a column has this name.

    Raises:
        UnreadableFile: There are too many columns.
    """
    filled = ((line, _cells(cells)) for line, cells in rows if any(map(str.strip, cells)))
    first = next(filled, None)
    if first is None:
        return
    header, sheet = first[1], sheet[:MAX_FIELD_CHARACTERS]
    if not _is_header(header):
        if sheet:
            rest.section(sheet)
        for _, cells in chain([first], filled):
            rest.row(cells)
        return
    titled = next((header.index(each) for name in _TITLES for each in header if each.lower() == name), None)
    for line, cells in filled:
        names = chain((f"{name}: " for name in header), iter(lambda: "", None))
        text = "; ".join(f"{name}{cell}" for name, cell in zip(names, cells, strict=False) if cell)
        own = cells[titled] if titled is not None and titled < len(cells) else ""
        section = ", ".join(filter(None, (sheet, f"row {line}")))
        fields = author_field(author) | cell_fields(dict(zip(header, cells, strict=False)))
        yield DocumentRow(own or title, text, None, line, sheet, (Mark(0, 0, section),), fields)


def read_xlsx(path: Path) -> Rows:
    """Yield the rows of a workbook as documents, as those of a CSV file.

    Formulas have the values that were saved with them. Dates are written in ISO 8601.

    Raises:
        UnreadableFile: The file is damaged, encrypted, too large, or holds only formulas without values.
    """
    with open_package(path) as package:
        main = package.main_part("xl/workbook.xml")
        relations, sheets = package.relations(main), package.attributes(main, "sheet")
        title, author = package.title_and_author()
        settings = package.attributes(main, "workbookPr")
        is_1904 = any(given.get("date1904") in ("1", "true") for given in settings)
        strings = _shared_strings(package, package.part("sharedStrings", "xl/sharedStrings.xml", main))
        styles = _date_styles(package, package.part("styles", "xl/styles.xml", main))
        values = _Values(strings, styles, is_1904)
        named = [(each.get("name", ""), each.get("id", "")) for each in sheets]
        rows = ((name, values.rows(package.events(relations.get(id, "")), name)) for name, id in named)
        yield from sheets_as_documents(
            rows, values.num_missing, path.stem, title, author, has_several=len(sheets) > 1
        )


def sheets_as_documents(
    sheets: Iterable[tuple[str, Iterable[tuple[int, Sequence[str]]]]],
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


def rest_as_document(rest: TextBuilder, title: str = "", author: str = "") -> Iterator[DocumentRow]:
    """Yield the rows of the tables without header as one document, if there are any."""
    row = rest.document(title, author)
    if row.text:
        yield row


def _cells(cells: Sequence[str]) -> list[str]:
    num_columns = next((number for number in range(len(cells), 0, -1) if cells[number - 1].strip()), 0)
    _check_columns(num_columns)
    return [" ".join(cell.split()) for cell in cells[:num_columns]]


def _check_columns(num_columns: int) -> None:
    if num_columns > MAX_COLUMNS:
        raise UnreadableFile(f"a table of {num_columns:,} columns; up to {MAX_COLUMNS:,} are read")


def _is_header(cells: Sequence[str]) -> bool:
    names = {cell.lower() for cell in cells}
    is_named = all(0 < len(cell) <= MAX_FIELD_CHARACTERS and not _NUMBER.fullmatch(cell) for cell in cells)
    return len(cells) > 1 and is_named and len(names) == len(cells)


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
        _check_columns(self.num_columns + num_repeated)
        self._num_characters += num_repeated * len(text)
        if self._num_characters > MAX_TEXT_CHARACTERS:
            raise UnreadableFile(f"a row of more than {MAX_TEXT_CHARACTERS:,} characters")
        self._num_in_table += num_repeated * (1 + len(text)) + self._num_empty
        if self._num_in_table > MAX_TABLE_CHARACTERS:
            raise UnreadableFile(f"more than {MAX_TABLE_CHARACTERS:,} cells and characters; split it")
        self._cells += [""] * self._num_empty + [text] * num_repeated
        self._num_empty = 0

    def end_row(self) -> list[str]:
        """Return the cells of the row, and begin the next row."""
        cells, self._cells, self._num_empty, self._num_characters = self._cells, [], 0, 0
        return cells


class _Values:
    """The values of the cells of a workbook.

    Attributes:
        num_missing: The number of formulas without saved values so far, by sheet.
    """

    def __init__(self, strings: Sequence[str], date_styles: set[int], is_1904: bool) -> None:
        self.num_missing = Counter[str]()
        self._strings, self._date_styles = strings, date_styles
        self._cells = SheetCells()
        self._epoch = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30)

    def rows(self, events: Iterator[XmlEvent], sheet: str) -> Iterator[tuple[int, list[str]]]:
        """Yield the number and the cells of each row of the sheet with this name."""
        cells, number, column, kind, style = self._cells, 0, 0, "", 0
        value, is_value, has_formula = "", False, False
        for event in events:
            name, is_start, given = event.name, event.kind == "start", event.attributes
            if event.kind == "text":
                value += name if is_value else ""
            elif name in ("v", "t"):
                is_value = is_start
            elif name == "f":
                has_formula = True
            elif name == "row" and is_start:
                number = whole_number(given.get("r"), number + 1)
            elif name == "row":
                yield number, cells.end_row()
            elif name == "c" and is_start:
                column, kind = _column(given.get("r", ""), cells.num_columns), given.get("t", "n")
                style, value, has_formula = whole_number(given.get("s"), 0), "", False
            elif name == "c":
                self.num_missing[sheet] += has_formula and not value and kind != "str"
                cells.add("", max(0, column - cells.num_columns))
                cells.add(self._shown(value, kind, style))
            elif name == "rPh":  # how to read Chinese characters in Japanese: it repeats the text
                is_value = False

    def _shown(self, value: str, kind: str, style: int) -> str:
        if kind == "s":
            index = whole_number(value, -1)
            return self._strings[index] if 0 <= index < len(self._strings) else ""
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if kind == "n" and value and style in self._date_styles:
            with suppress(ValueError, OverflowError):
                when = self._epoch + timedelta(seconds=round(float(value) * _SECONDS_PER_DAY))
                return str(when.date() if when.time() == datetime.min.time() else when)
        if kind == "n":
            with suppress(ValueError, OverflowError):
                return f"{float(value):.15g}"  # as programs show it: not 0.30000000000000004
        return "" if kind == "e" else value


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


def _date_styles(package: Package, member: str) -> set[int]:
    """Return the numbers of the cell styles that show dates or times."""
    formats, styles, is_cell_style = set(_DATE_FORMATS), list[int](), False
    for event in package.events(member):
        given = event.attributes
        if event.name == "cellXfs":
            is_cell_style = event.kind == "start"
        elif event.kind == "start" and event.name == "numFmt":
            if re.search("[ymdhs]", _QUOTED.sub("", given.get("formatCode", "")), re.IGNORECASE):
                formats.add(whole_number(given.get("numFmtId"), 0))
        elif event.kind == "start" and event.name == "xf" and is_cell_style:
            styles.append(whole_number(given.get("numFmtId"), 0))
    return {number for number, format in enumerate(styles) if format in formats}


def _column(reference: str, default: int) -> int:
    """Return the number of a column, from 0, given the reference of a cell, such as "C5"."""
    match = _CELL.fullmatch(reference)
    if match is None:
        return default
    number = 0
    for letter in match[1]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return min(number, MAX_COLUMNS) - 1
