"""Tables of any format as documents, and CSV and TSV files."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat, starmap
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from askance.core.records import Convert, Field, Flaw, csv_rows, delimiter_in
from askance.retrieval.index.formats.content import (
    DocumentRow,
    Mark,
    Rows,
    TextBuilder,
    UnreadableFile,
    UnreadPart,
)
from askance.retrieval.index.formats.encodings import GZIPPED, checked_encoding, open_bytes
from askance.retrieval.index.formats.fields import (
    MAX_FIELD_CHARACTERS,
    author_field,
    cell_fields,
    field_names,
)

MAX_ID_CHARACTERS = 512
MAX_COLUMNS = 16_384
"""As many as a sheet of a spreadsheet program has."""
MAX_REPEATED_CHARACTERS = 200
"""The longest text of a merged cell that is repeated in each row and column that it spans."""
MAX_NAMED = 100
"""How many malformed rows of a file are named; the others are counted."""
_TITLES = ("title", "name", "subject")
_NUMBER = re.compile(r"[-+]?[.,:/ -]*\d[\d.,:/%€$£ -]*")
_TEXT_COLUMNS = ("id", "title", "text")
_TEXT_SHAPE = "The first line names the columns: id, text, title, and further ones. Only text is needed."


class TableRow(NamedTuple):
    """A row of a table.

    Attributes:
        line: The number of the row or of its last line, from 1.
        problem: What is wrong with the row; empty if nothing is.
    """

    line: int
    cells: Sequence[str]
    problem: str = ""


def read_table(path: Path) -> Rows:
    """Yield the rows of a CSV or TSV file (see `rows_as_documents`). A table without header is one row.

    Raises:
        UnreadableFile: The file is no table, or its encoding can't be recognised.
    """
    encoding = checked_encoding(path)
    delimiter = _delimiter_of(path, encoding)
    name = Path(path.stem).stem if path.suffix.lower() == GZIPPED else path.stem
    rest = TextBuilder()
    with open_text(path, encoding, newline="") as file:
        yield from rows_as_documents(starmap(TableRow, csv_rows(file, delimiter)), name, rest)
    yield from rest_as_document(rest)


def open_text(path: Path, encoding: str, newline: str | None = None) -> TextIO:
    """Open a text file that may be gzipped. Bytes without a meaning are replaced."""
    return io.TextIOWrapper(open_bytes(path), encoding, errors="replace", newline=newline)


def _delimiter_of(path: Path, encoding: str) -> str:
    """Return the delimiter of the cells of a CSV or TSV file, found in its first line that is not blank."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if ".tsv" in suffixes:
        return "\t"
    with open_text(path, encoding) as file:
        return delimiter_in(next((line for line in file if line.strip()), ""))


def rows_as_documents(
    rows: Iterable[TableRow], title: str, rest: TextBuilder, sheet: str = "", author: str = ""
) -> Rows:
    """Yield each row under a header as a document that repeats the names of the columns, as fields as well.

    The first row that is not empty is the header if other rows follow, at least half of its several cells
    are filled, and these are distinct, no numbers, and of at most 1,000 characters. A header with the name
    "text" may have any other names, and its rows are texts with "id" and "title". The rows of other tables
    are appended to `rest`.

    Args:
        title: The title of rows without a column "title", "name" or "subject".
        sheet: The name of the sheet, if there are several.
        author: The author of the file, who is a field of each row unless a column has this name.

    Raises:
        UnreadableFile: There are too many columns.
    """
    rows, sheet = iter(rows), sheet[:MAX_FIELD_CHARACTERS]
    start = list(islice((row for row in rows if _is_filled(row)), 2))
    header = _cells(start[0].cells) if len(start) > 1 else []
    others = chain(start[1:], rows)
    if "text" in map(str.lower, header):
        yield from _texts(header, others, sheet, author)
    elif _is_header(header):
        yield from _named_rows(header, others, title, sheet, author)
    else:
        if sheet and start:
            rest.section(sheet)
        for row in chain(start[:1], others):
            rest.row(_cells(row.cells))


def _named_rows(
    header: list[str], rows: Iterable[TableRow], title: str, sheet: str, author: str
) -> Iterator[DocumentRow]:
    labels = [f"{name}: " if name else "" for name in header]
    names, by_author = field_names(header), author_field(author)
    title_column = next(
        (header.index(each) for name in _TITLES for each in header if each.lower() == name), None
    )
    before = f"{sheet}, row" if sheet else "row"
    for row in rows:
        cells = _cells(row.cells)
        if not cells:
            continue
        labelled = zip(chain(labels, repeat("")), cells, strict=False)
        text = "; ".join([label + cell for label, cell in labelled if cell])
        named = cells[title_column] if title_column is not None and title_column < len(cells) else ""
        mark, fields = Mark(0, 0, f"{before} {row.line}"), {**by_author, **cell_fields(names, cells)}
        yield DocumentRow(named or title, text, None, row.line, sheet, (mark,), fields)


def _texts(header: list[str], rows: Iterable[TableRow], sheet: str, author: str) -> Rows:
    columns = list(map(str.lower, header))
    names = ["" if name.lower() in _TEXT_COLUMNS else name for name in field_names(header)]
    by_author = author_field(author)

    def convert(row: Field, line: int) -> Iterator[DocumentRow]:
        _, cells, problem = row.value
        if problem:
            raise Flaw(f": {problem}")
        by_column = Field(dict(zip(columns, cells, strict=False)))
        title, text = (by_column.get(name, "").maybe_blank() for name in ("title", "text"))
        fields = {**by_author, **cell_fields(names, [cell.strip() for cell in cells])}
        yield DocumentRow(title, text, row_id(by_column["id"]), line, sheet, fields=fields)

    filled = ((f"line {row.line}", row) for row in rows if _is_filled(row))
    yield from converted_rows(filled, convert, _TEXT_SHAPE)


def converted_rows(rows: Iterable[tuple[str, Any]], convert: Convert[DocumentRow], shape: str) -> Rows:
    """Yield the documents of records, and the malformed ones, up to a number, as parts that can't be read.

    Args:
        rows: The location of each record, such as "line 3", and the record.
        shape: A description of a valid record, for the reason.
    """
    num_malformed = 0
    for location, row in rows:
        try:
            yield from convert(Field(row), int(location.rpartition(" ")[2]))
        except Flaw as flaw:
            num_malformed += 1
            field, _, problem = str(flaw).partition(": ")
            if num_malformed <= MAX_NAMED:
                yield UnreadPart(location + field, f"{problem.removesuffix('.')}. {shape}")
    if num_malformed > MAX_NAMED:
        yield UnreadPart(f"{num_malformed - MAX_NAMED:,} more rows", "malformed like those before")


def row_id(value: Field) -> str | None:
    """Return the id of a row, which may have none."""
    if not value.is_given:
        return None
    id = value.id()
    if len(id) > MAX_ID_CHARACTERS:
        raise value.flaw(f"has {len(id)} characters; {MAX_ID_CHARACTERS} are possible")
    return id


def rest_as_document(rest: TextBuilder, title: str = "", author: str = "") -> Iterator[DocumentRow]:
    """Yield the rows of the tables without header as one document, if there are any."""
    row = rest.document(title, author)
    if row.text:
        yield row


def check_columns(num_columns: int) -> None:
    """Refuse a table of too many columns.

    Raises:
        UnreadableFile: There are more than 16,384 columns.
    """
    if num_columns > MAX_COLUMNS:
        raise UnreadableFile(f"a table of {num_columns:,} columns; up to {MAX_COLUMNS:,} are read")


def _is_filled(row: TableRow) -> bool:
    return any(map(str.strip, row.cells))


def _cells(cells: Sequence[str]) -> list[str]:
    filled = [" ".join(cell.split()) for cell in cells]
    while filled and not filled[-1]:
        filled.pop()
    check_columns(len(filled))
    return filled


def _is_header(cells: list[str]) -> bool:
    names = [cell.lower() for cell in cells if cell]
    are_names = all(len(name) <= MAX_FIELD_CHARACTERS and not _NUMBER.fullmatch(name) for name in names)
    return 1 < len(cells) <= 2 * len(names) and are_names and len(set(names)) == len(names)
