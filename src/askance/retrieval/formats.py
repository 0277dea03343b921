"""The kinds of file that documents come in: a reader for each, by the end of the file's name.

A reader gives rows one by one, so that a file may have any number of them; plain text, Markdown, HTML and PDF
are one row each. Text keeps its line ends as they are.
"""

import csv
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from askance.core.errors import DocumentError, MissingExtra

MAX_ID_CHARACTERS = 512
_HEADING = re.compile(r"#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_PARTED = "\x02"
_PDFIUM = threading.Lock()
"""PDFium must not be called by two threads at a time."""
_UNSEEN_TAGS = ("script", "style", "template", "noscript", "head", "title")
_JSON_SHAPE = (
    'A row is a JSON object on one line, such as {"id": "7", "title": "Bonn", "text": "Bonn is a city."}; '
    '"id" and "title" may be left out, and "contents" may stand for "text".'
)
_TSV_SHAPE = (
    "The first line names the columns (id, text, title; only text is needed), every other line has as many "
    'fields, separated by one tab. A field that begins with " ends with " and has its inner quotes doubled.'
)


@dataclass(frozen=True, slots=True)
class Row:
    """A text with its title, which is empty where there is none.

    Attributes:
        line: of the file, from 1, the last one of a row that spans several; 0 for a whole file.
    """

    title: str
    text: str
    id: str | None = None
    line: int = 0


class Unreadable(ValueError):
    """A file that is not what its name says; the message is the reason alone."""


def read_plain(path: Path) -> Iterator[Row]:
    """The file as it is."""
    yield Row("", _decode(path))


def read_markdown(path: Path) -> Iterator[Row]:
    """The file as it is; its title is the first heading outside code."""
    text = _decode(path)
    yield Row(_first_heading(text), text)


def read_html(path: Path) -> Iterator[Row]:
    """The page's title and main text. Where no main text stands out, all of its visible text."""
    try:
        from trafilatura import bare_extraction
    except ImportError as error:
        raise MissingExtra("trafilatura", "html", f"reading {path}") from error
    page = _decode(path)
    main = bare_extraction(page, with_metadata=True, include_comments=False)
    title, text = _visible(page)
    yield Row(str(getattr(main, "title", None) or title).strip(), str(getattr(main, "text", None) or text))


def read_pdf(path: Path) -> Iterator[Row]:
    """The title in the file's metadata, and the text of its pages, one after another.

    Raises:
        Unreadable: it is encrypted, damaged, or has no text.
    """
    import pypdfium2

    content = path.read_bytes()
    try:
        with _PDFIUM, pypdfium2.PdfDocument(content) as document:
            text = "\n".join(page.get_textpage().get_text_bounded() for page in document)
            title = document.get_metadata_value("Title")
    except pypdfium2.PdfiumError as error:
        if "password" in str(error):
            raise Unreadable("an encrypted PDF; remove its password first") from error
        raise Unreadable(f"a PDF that can't be read: {error}") from error
    # PDFium ends lines like DOS, and leaves its mark where a word was parted at the end of one.
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace(_PARTED, "")
    if not text.strip():
        raise Unreadable("a PDF without text (scanned pages need text recognition first)")
    yield Row(title.strip(), text.encode("utf-8", "replace").decode())


def read_jsonl(path: Path) -> Iterator[Row]:
    """The rows of a JSON Lines file; blank lines are passed over.

    Raises:
        DocumentError: a malformed row; names file, line, problem and what a row looks like.
    """
    with path.open(encoding="utf-8-sig") as file:
        for line, content in enumerate(file, start=1):
            if not content.strip():
                continue
            try:
                yield _json_row(line, content)
            except json.JSONDecodeError as error:
                raise DocumentError(f"{path}, line {line}: not JSON ({error.msg}). {_JSON_SHAPE}") from error
            except (ValueError, TypeError, RecursionError) as error:
                raise DocumentError(f"{path}, line {line}: {error}. {_JSON_SHAPE}") from error


def read_tsv(path: Path) -> Iterator[Row]:
    """The rows of a table in the layout of the DPR Wikipedia dump, its columns found by their names.

    Raises:
        DocumentError: a malformed row or header; names file, line, problem and what a row looks like.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t", strict=True)
        try:
            names = [name.strip().lower() for name in next(reader, [])]
            if "text" not in names:
                raise ValueError(f'no column is named "text"; the columns are {names}')
            for fields in filter(None, reader):
                if len(fields) != len(names):
                    raise ValueError(f"{len(fields)} fields where the header has {len(names)}")
                row = dict(zip(names, fields, strict=True))
                yield _checked(Row(row.get("title", ""), row["text"], row.get("id"), reader.line_num))
        except (ValueError, csv.Error) as error:
            raise DocumentError(f"{path}, line {reader.line_num}: {error}. {_TSV_SHAPE}") from error


READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
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


def _visible(page: str) -> tuple[str, str]:
    """The title of a page, and what a reader sees of it, piece by piece."""
    from lxml.etree import ParserError, strip_elements
    from lxml.html import HTMLParser, document_fromstring

    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        document = document_fromstring(page.encode(), parser=parser)
    except ParserError:  # there is nothing in it
        return "", ""
    title = document.findtext(".//title") or ""
    strip_elements(document, *_UNSEEN_TAGS, with_tail=False)
    pieces = (piece.strip() for piece in document.itertext())
    return title, "\n".join(filter(None, pieces))


def _json_row(line: int, content: str) -> Row:
    row = json.loads(content)
    if not isinstance(row, dict):
        raise TypeError(f"{_shown(row)} is not an object")
    text, title = row.get("text", row.get("contents")), row.get("title")
    if not isinstance(text, str):
        raise TypeError(f'"text" is {_shown(text)}, not a string')
    if not isinstance(title, str | None):
        raise TypeError(f'"title" is {_shown(title)}, not a string')
    id = row.get("id", row.get("_id"))
    if isinstance(id, bool) or not isinstance(id, str | int | None):
        raise TypeError(f'"id" is {_shown(id)}, not a string or a whole number')
    if title is None and "text" not in row:
        title, text = _split_contents(text)
    return _checked(Row(title or "", text, None if id is None else str(id), line))


def _shown(value: object) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _split_contents(contents: str) -> tuple[str, str]:
    """Title and text of ``"Title"<newline>text``, as Pyserini and FlashRAG write Wikipedia."""
    first, newline, rest = contents.partition("\n")
    is_titled = newline and len(first) > 2 and first.startswith('"') and first.endswith('"')
    return (first[1:-1], rest) if is_titled else ("", contents)


def _checked(row: Row) -> Row:
    if row.id is not None and not 1 <= len(row.id) <= MAX_ID_CHARACTERS:
        raise ValueError(f'"id" has {len(row.id)} characters; 1 to {MAX_ID_CHARACTERS} are possible')
    try:
        f"{row.id}{row.title}{row.text}".encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(f"{half} is half of a character (a lone surrogate)") from error
    return row
