"""The file formats of documents: a reader for each, by file extension.

A reader yields rows one by one, so a file may have any number of rows. Plain text, Markdown, HTML and PDF
files are one row each. Line endings in the text are kept.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from askance.core.errors import DocumentError, MissingExtra
from askance.core.filters import FieldValue
from askance.core.records import Convert, Field, Rows, converted, lines, table_rows

MAX_ID_CHARACTERS = 512
MAX_FIELDS = 100
MAX_FIELD_CHARACTERS = 1_000
_HEADING = re.compile(r"#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,99})(\.\d{1,99})?", re.ASCII)
_HYPHENATION = "\x02"
_PDFIUM = threading.Lock()
"""PDFium must not be called by two threads at a time."""
_INVISIBLE_TAGS = ("script", "style", "template", "noscript", "head", "title")
_JSON_SHAPE = (
    'A row is a JSON object on one line, such as {"id": "7", "title": "Bonn", "text": "Bonn is a city."}; '
    '"id" and "title" may be left out, "contents" may stand for "text", and further keys become fields.'
)
_JSON_KEYS = ("id", "_id", "title", "text", "contents")
_TABLE_COLUMNS = ("id", "title", "text")
_TSV_SHAPE = "The first line names the columns: id, text, title, and further ones. Only text is needed."


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A row of a file, or the content of a whole file. The title may be empty.

    Attributes:
        line: The line number in the file, from 1; the last line if a row spans several. It is 0 for a whole
            file.
        fields: The further columns of the row, or the properties that the file states.
    """

    title: str
    text: str
    id: str | None = None
    line: int = 0
    fields: Mapping[str, FieldValue] = field(default_factory=dict)


class UnreadableFile(ValueError):
    """The content of a file does not match its name. The message gives only the reason."""


def read_plain(path: Path) -> Iterator[DocumentRow]:
    """Yield the file as one row."""
    yield DocumentRow("", _decode(path))


def read_markdown(path: Path) -> Iterator[DocumentRow]:
    """Yield the file as one row. The title is the first heading outside code blocks."""
    text = _decode(path)
    yield DocumentRow(_first_heading(text), text)


def read_html(path: Path) -> Iterator[DocumentRow]:
    """Yield the page as one row, with its title and main text.

    If no main text is found, the row has all visible text of the page.
    """
    try:
        from trafilatura import bare_extraction
    except ImportError as error:
        raise MissingExtra("trafilatura", "html", f"reading {path}") from error
    page = _decode(path)
    main = bare_extraction(page, with_metadata=True, include_comments=False)
    title, text = _visible_text(page)
    yield DocumentRow(
        str(getattr(main, "title", None) or title).strip(),
        str(getattr(main, "text", None) or text),
        fields=_author(str(getattr(main, "author", None) or "")),
    )


def read_pdf(path: Path) -> Iterator[DocumentRow]:
    """Yield the file as one row, with the title from its metadata and the text of all pages.

    Raises:
        UnreadableFile: The file is encrypted, damaged, or has no text.
    """
    import pypdfium2

    content = path.read_bytes()
    try:
        with _PDFIUM, pypdfium2.PdfDocument(content) as document:
            text = "\n".join(page.get_textpage().get_text_bounded() for page in document)
            title, author = map(document.get_metadata_value, ("Title", "Author"))
    except pypdfium2.PdfiumError as error:
        if "password" in str(error):
            raise UnreadableFile("an encrypted PDF; remove its password first") from error
        raise UnreadableFile(f"a PDF that can't be read: {error}") from error
    # PDFium ends lines with CRLF, and leaves a marker where a word was hyphenated at the end of a line.
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace(_HYPHENATION, "")
    if not text.strip():
        raise UnreadableFile("a PDF without text (scanned pages need text recognition first)")
    text, author = (each.encode("utf-8", "replace").decode() for each in (text, author))
    yield DocumentRow(title.strip(), text, fields=_author(author))


def read_jsonl(path: Path) -> Iterator[DocumentRow]:
    """Yield the rows of a JSON Lines file, without blank lines.

    Raises:
        DocumentError: A row is malformed. The message names the file, the line, the problem and the expected
            format.
    """
    return _rows(path, lines(path, DocumentError), _json_row, _JSON_SHAPE)


def read_tsv(path: Path) -> Iterator[DocumentRow]:
    """Yield the rows of a table in the layout of the DPR Wikipedia dump.

    Columns are found by name.

    Raises:
        DocumentError: A row or the header is malformed. The message names the file, the line, the problem and
            the remedy.
    """
    return _rows(path, table_rows(path, DocumentError, needs="text"), _table_row, _TSV_SHAPE)


READERS: Mapping[str, Callable[[Path], Iterator[DocumentRow]]] = {
    ".txt": read_plain,
    ".md": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": read_pdf,
    ".jsonl": read_jsonl,
    ".tsv": read_tsv,
}


def _decode(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig")


def _first_heading(text: str) -> str:
    is_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and (heading := _HEADING.fullmatch(line)):
            return heading.group(1)
    return ""


def _visible_text(page: str) -> tuple[str, str]:
    """Return the title of a page and its visible text, one line per element."""
    from lxml.etree import ParserError, strip_elements
    from lxml.html import HTMLParser, document_fromstring

    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        document = document_fromstring(page.encode(), parser=parser)
    except ParserError:  # the page is empty
        return "", ""
    title = document.findtext(".//title") or ""
    strip_elements(document, *_INVISIBLE_TAGS, with_tail=False)
    pieces = (piece.strip() for piece in document.itertext())
    return title, "\n".join(filter(None, pieces))


def _rows(path: Path, rows: Rows, convert: Convert[DocumentRow], shape: str) -> Iterator[DocumentRow]:
    for location, row in rows:
        line = int(location.removeprefix("line "))
        yield from converted(row, line, convert, shape, f"{path}, {location}", DocumentError)


def _json_row(written: Field, line: int) -> Iterator[DocumentRow]:
    row = written.parsed()
    text, title = row.first("text", "contents").maybe_blank(), row.get("title", "").maybe_blank()
    if not row["text"].is_given and not row["title"].is_given:
        title, text = _split_contents(text)
    others = {name: value for name, value in row.object().items() if name not in _JSON_KEYS}
    yield DocumentRow(title, text, _id(row.first("id", "_id")), line, row_fields(Field(others)))


def _table_row(row: Field, line: int) -> Iterator[DocumentRow]:
    cells = Field({name.lower(): cell for name, cell in row.object().items()})
    others = {
        name: cell_value(cell) for name, cell in row.object().items() if name.lower() not in _TABLE_COLUMNS
    }
    title, text = cells.get("title", "").maybe_blank(), cells["text"].maybe_blank()
    yield DocumentRow(title, text, _id(cells["id"]), line, row_fields(Field(others)))


def cell_value(cell: str) -> FieldValue:
    """Return the value of a cell of a table: a number, true or false if it is written as one, else text."""
    cell = cell.strip()
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    if not _NUMBER.fullmatch(cell):
        return cell
    return float(cell) if "." in cell else int(cell)


def row_fields(columns: Field) -> dict[str, FieldValue]:
    """Return the columns of a row that can be fields.

    These are the first 100 with a name and a value that is text, a finite number, true or false. Blank text,
    and names and text of more than 1,000 characters, are left out.

    Raises:
        Flaw: A name or a text has half of a character.
    """
    fields: dict[str, FieldValue] = {}
    for name, value in columns.object().items():
        Field(name, "a name").maybe_blank()
        is_named = 0 < len(name.strip()) <= MAX_FIELD_CHARACTERS and "`" not in name
        if is_named and _can_filter(value, columns[name]) and len(fields) < MAX_FIELDS:
            fields[name.strip()] = value
    return fields


def _can_filter(value: Any, column: Field) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and len(column.maybe_blank()) <= MAX_FIELD_CHARACTERS
    return isinstance(value, bool) or (isinstance(value, int | float) and is_finite(value))


def is_finite(value: float) -> bool:
    """Return whether a number is finite and not too large for a float."""
    try:
        return isfinite(value)
    except OverflowError:
        return False  # a whole number


def _author(author: str) -> dict[str, FieldValue]:
    return row_fields(Field({"author": author.strip()}))


def _id(given: Field) -> str | None:
    if not given.is_given:
        return None
    id = given.id()
    if len(id) > MAX_ID_CHARACTERS:
        raise given.flaw(f"has {len(id)} characters; {MAX_ID_CHARACTERS} are possible")
    return id


def _split_contents(contents: str) -> tuple[str, str]:
    """Split ``"Title"<newline>text``, as Pyserini and FlashRAG write Wikipedia, into title and text."""
    first, newline, rest = contents.partition("\n")
    is_titled = newline and len(first) > 2 and first.startswith('"') and first.endswith('"')
    return (first[1:-1], rest) if is_titled else ("", contents)
