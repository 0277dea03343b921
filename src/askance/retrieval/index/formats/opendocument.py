"""The readers of OpenDocument texts, presentations and spreadsheets."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from askance.retrieval.index.formats.content import MAX_TEXT_CHARACTERS, Rows, TextBuilder, UnreadableFile
from askance.retrieval.index.formats.packages import Attributes, Package, XmlEvent, open_package, whole_number
from askance.retrieval.index.formats.spreadsheets import (
    MergedCells,
    SheetCells,
    cell_text,
    percentage,
    sheets_as_documents,
)
from askance.retrieval.index.formats.tables import MAX_COLUMNS, TableRow

_MAX_SPACES = 100
_MAX_ROWS = 1 << 20
_LEFT_OUT = ("tracked-changes", "annotation", "automatic-styles", "note-citation", "shapes")
_CELLS = ("table-cell", "covered-table-cell")


class _Block(NamedTuple):
    """A part of the content.

    Attributes:
        kind: "page" for the start of a slide, "h" for a heading, "p" for a paragraph, "row" for a row.
        texts: The cells of a row; otherwise one text.
        table: The name of the row's table.
        number: The number of a row or slide, from 1.
        num_missing: The number of formulas without saved values in a row.
    """

    kind: str
    texts: list[str]
    table: str = ""
    number: int = 0
    num_missing: int = 0


def read_odt(path: Path) -> Rows:
    """Yield a text or a presentation as one row. Deleted text and comments are left out.

    The sections are the headings of a text, and the titles of slides, which are pages.

    Raises:
        UnreadableFile: The file is damaged, encrypted or too large.
    """
    with _opened(path) as package:
        text = TextBuilder()
        for kind, texts, _, number, _ in _blocks(package):
            if kind == "row":
                text.row(texts)
            elif kind == "page":
                text.section("", page=number)
            else:
                text.block(texts[0], is_heading=kind == "h")
        yield text.document(*_title_and_author(package))


def read_ods(path: Path) -> Rows:
    """Yield the rows of a spreadsheet as documents, as those of a CSV file.

    Formulas have the values that were saved with them. A row that is saved as repeated is read once.

    Raises:
        UnreadableFile: The file is damaged, encrypted, too large, or holds only formulas without values.
    """
    num_missing = Counter[str]()

    def rows_of(blocks: Iterator[_Block]) -> Iterator[TableRow]:
        for block in blocks:
            num_missing[block.table] += block.num_missing
            yield TableRow(block.number, block.texts)

    with _opened(path) as package:
        title, author = _title_and_author(package)
        has_several = _has_several_sheets(package)
        blocks = (block for block in _blocks(package, has_values=True) if block.kind == "row")
        by_sheet = groupby(blocks, key=lambda block: block.table)
        sheets = ((name, rows_of(rows)) for name, rows in by_sheet)
        yield from sheets_as_documents(sheets, num_missing, path.stem, title, author, has_several=has_several)


@contextmanager
def _opened(path: Path) -> Iterator[Package]:
    with open_package(path) as package:
        if package.attributes("META-INF/manifest.xml", "encryption-data"):
            raise UnreadableFile("encrypted; remove its password first")
        if "content.xml" not in package:
            raise UnreadableFile("damaged, or no OpenDocument file: it lacks content.xml")
        yield package


def _has_several_sheets(package: Package) -> bool:
    """Return whether there is a second sheet, by reading up to its start. Tables in cells are no sheets."""
    num_open = num_sheets = 0
    for kind, name, _ in _paragraphs(package):
        if name == "table" and kind in ("start", "end"):
            num_open += 1 if kind == "start" else -1
            num_sheets += kind == "start" and num_open == 1
        if num_sheets > 1:
            return True
    return False


def _title_and_author(package: Package) -> tuple[str, str]:
    author = package.text_of("meta.xml", "initial-creator") or package.text_of("meta.xml", "creator")
    return package.text_of("meta.xml", "title"), author


def _blocks(package: Package, *, has_values: bool = False) -> Iterator[_Block]:
    """Yield the blocks in order.

    Args:
        has_values: Cells have their values; otherwise the text that is shown, such as "4.00 kg".
    """
    cells, merged, cell, table, given = SheetCells(), MergedCells(), list[str](), "", Attributes()
    num_tables = num_rows = num_pages = num_missing = 0
    num_repeated_rows = 1
    is_title = is_presentation = False
    for kind, name, attributes in _paragraphs(package):
        is_start = kind == "start"
        if kind in ("p", "h"):
            if num_tables:
                cell.append(name)
            else:
                yield _Block("h" if is_title else kind, [name])
        elif name == "table":
            num_tables += 1 if is_start else -1
            if is_start and num_tables == 1:
                table, num_rows, merged = attributes.get("name", ""), 0, MergedCells()
        elif name == "presentation":
            is_presentation = is_start
        elif name == "frame":
            is_title = is_start and attributes.get("class") == "title"
        elif name == "page" and is_start and is_presentation:
            num_pages += 1
            yield _Block("page", [], number=num_pages)
        elif name in _CELLS and is_start:
            given = attributes
            cell = [] if num_tables == 1 else cell  # not the text of forms between the cells
        elif name in _CELLS:
            shown = (_value(given) if has_values else "") or " ".join(cell)
            num_repeated = _count(given, "number-columns-repeated", MAX_COLUMNS)
            if "formula" in given and given.get("value-type") != "string" and not shown:
                num_missing += num_repeated
            num_columns = _count(given, "number-columns-spanned", MAX_COLUMNS)
            last_row = num_rows + _count(given, "number-rows-spanned", _MAX_ROWS)
            if num_columns > 1 or last_row > num_rows + 1:
                merged.add((num_rows + 1, cells.num_columns, last_row, cells.num_columns + num_columns - 1))
            cells.add(shown, num_repeated)
            cell, given = [], {}
        elif name == "table-row" and num_tables == 1 and is_start:
            num_repeated_rows = _count(attributes, "number-rows-repeated", _MAX_ROWS)
        elif name == "table-row" and num_tables == 1:
            row = merged.fill(TableRow(num_rows + 1, cells.end_row()))
            yield _Block("row", list(row.cells), table, row.line, num_missing)
            num_missing = 0
            num_rows += num_repeated_rows


def _paragraphs(package: Package) -> Iterator[XmlEvent]:
    """Yield the events of the content, with each paragraph and heading as one event with its text.

    The kind of these events is "p" or "h". What is left out has no events.
    """
    pieces, left_out, num_open, num_spaces = list[str](), 0, 0, 0
    for event in package.events("content.xml"):
        kind, name, attributes = event
        is_start = kind == "start"
        if kind == "text":
            if num_open and not left_out:
                pieces.append(name)
        elif name in _LEFT_OUT:
            left_out += 1 if is_start else -1
        elif left_out:
            continue
        elif name in ("p", "h"):
            num_open += 1 if is_start else -1
            if is_start:
                pieces += [" "] * (num_open > 1)  # a paragraph of a note inside another
            elif num_open == 0:
                yield name, "".join(pieces), {}
                pieces = []
        elif is_start and name in ("tab", "line-break"):
            pieces.append("\t" if name == "tab" else "\n")
        elif is_start and name == "s":
            pieces.append(" " * _count(attributes, "c", _MAX_SPACES))
            num_spaces += len(pieces[-1])
            if num_spaces > MAX_TEXT_CHARACTERS:
                raise UnreadableFile(f"more than {MAX_TEXT_CHARACTERS:,} repeated spaces")
        else:
            yield event


def _count(attributes: Attributes, name: str, limit: int) -> int:
    """Return how often something is repeated, at most `limit` times."""
    return min(limit, whole_number(attributes.get(name), 1))


def _value(attributes: Attributes) -> str:
    """Return the value of a number, date or truth value as in tables of other formats, or an empty string."""
    match attributes.get("value-type"):
        case "float" | "currency" | "percentage" as kind:
            with suppress(ValueError, OverflowError):
                value = float(attributes.get("value", ""))
                return percentage(value) if kind == "percentage" else cell_text(value)
        case "date":
            return attributes.get("date-value", "").replace("T", " ").removesuffix(" 00:00:00")
        case "boolean":
            return attributes.get("boolean-value", "").upper()
    return ""
