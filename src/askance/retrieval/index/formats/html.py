"""The readers of web pages, EPUB books, and of HTML inside other documents."""

import re
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname
from typing import Any

from askance.core.errors import MissingExtra
from askance.retrieval.index.formats.content import (
    DocumentRow,
    Rows,
    TextBuilder,
    UnreadableFile,
    check_size,
    given_title,
)
from askance.retrieval.index.formats.encodings import decoded
from askance.retrieval.index.formats.fields import author_field
from askance.retrieval.index.formats.packages import InvalidXml, Package, joined, open_package

_INVISIBLE = {"script", "style", "template", "noscript", "head", "title"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_INLINE = set(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp small "
    "span strike strong sub sup time tt u var wbr".split()
)
_MAIN_ELEMENTS = ("p", "head", "item", "quote", "code", "row")
_NO_LETTER = re.compile(r"\W+")
_SPACE = re.compile(r"\s+")
_DECLARED = re.compile(rb"""(?:charset\s*=\s*|<\?xml[^>]*encoding\s*=\s*)["']?\s*([-\w:]+)""", re.IGNORECASE)
_HEAD_BYTES = 4096
_NO_ELEMENT = re.compile(
    r"<(script|style)\b(?![^<>]*/>).*?(?:</\1\b[^<>]*>?|\Z)|<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*(?:>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
"""Scripts, style sheets, comments and declarations; what does not end reaches to the end of the page."""
_TAG_START = re.compile(r"<[a-zA-Z/]")
_EPUB = "META-INF/container.xml"
_CONTENTS = "application/x-dtbncx+xml"
_FOOTNOTE = re.compile(r"<aside\b(?=[^<>]*\bfootnote)", re.IGNORECASE)
"""The start of a footnote as Docutils and Sphinx write it; trafilatura leaves out what stands aside."""
_FONT_ENCRYPTION = "idpf.org/2008/embedding"


def read_html(path: Path) -> Rows:
    """Yield the page as one row, with its title and main text, and its headings as sections.

    trafilatura finds where the main text begins and ends. If it finds none, the row has all visible text.

    Raises:
        MissingExtra: trafilatura is not installed.
        UnreadableFile: The page is too large, or in an encoding that can't be recognised.
    """
    try:
        from trafilatura import bare_extraction
    except ImportError as error:
        raise MissingExtra("trafilatura", "html", f"reading {path}") from error
    check_size(path.stat().st_size)
    page = decoded_page(path.read_bytes())
    main = bare_extraction(
        _FOOTNOTE.sub("<div", page), with_metadata=True, include_comments=False, favor_recall=True
    )
    row = visible_text(page)
    title = given_title(str(getattr(main, "title", None) or "")) or row.title
    body = getattr(main, "body", None)
    fields = author_field(str(getattr(main, "author", None) or ""))
    yield replace(row if body is None else _main_part(row, body), title=title, fields=fields)


def decoded_page(content: bytes) -> str:
    """Return a page as text, in UTF-8 or in the encoding that it declares or that is recognised."""
    declared = _DECLARED.search(content[:_HEAD_BYTES])
    return decoded(content, declared[1].decode("ascii") if declared else "")


def visible_text(page: str) -> DocumentRow:
    """Return the title and the visible text of a page, with its headings as sections."""
    parser = _Visible()
    add_page(parser.text, page, parser)
    return parser.text.document(parser.title)


def add_page(text: TextBuilder, page: str, parser: "_Visible | None" = None) -> None:
    """Append the visible text of a page to a document.

    `HTMLParser` looks for the end of each comment and tag in the whole rest of the page, so the page is given
    to it without comments, and with an end of its last tag.
    """
    parser = parser or _Visible()
    parser.text = text
    page = _NO_ELEMENT.sub("", page)
    has_open_tag = _TAG_START.search(page, page.rfind(">") + 1)
    parser.feed(page + ">" if has_open_tag else page)
    parser.close()
    parser.end_block()


def read_epub(path: Path) -> Rows:
    """Yield a book as one row, with its chapters in reading order and their headings as sections.

    Raises:
        UnreadableFile: The file is damaged, encrypted or too large. A damaged table of contents is no error.
    """
    with open_package(path) as package:
        encryption = package.events("META-INF/encryption.xml")
        algorithms = filter(None, (event.attributes.get("Algorithm") for event in encryption))
        if any(_FONT_ENCRYPTION not in algorithm and "adobe" not in algorithm for algorithm in algorithms):
            raise UnreadableFile("a book with copy protection")
        paths = [
            given["full-path"] for given in package.attributes(_EPUB, "rootfile") if "full-path" in given
        ]
        if not paths:
            raise UnreadableFile("damaged: it does not name its content")
        members, chapters, folder = dict[str, str](), dict[str, str](), dirname(paths[0])
        for given in package.attributes(paths[0], "item"):
            member = members[given.get("id", "")] = given.get("href", "")
            if given.get("media-type") == _CONTENTS or "nav" in given.get("properties", "").split():
                chapters |= _chapter_names(package, joined(folder, member))
        spine = [members.get(given.get("idref", "")) for given in package.attributes(paths[0], "itemref")]
        text = TextBuilder()
        for member in filter(None, spine):
            if (name := joined(folder, member)) in package:
                if name in chapters:
                    text.section(chapters[name])
                add_page(text, decoded_page(package.read(name)))
        yield text.document(package.text_of(paths[0], "title"), package.text_of(paths[0], "creator"))


def _chapter_names(package: Package, name: str) -> dict[str, str]:
    """Return the names of the members in a table of contents of EPUB 2 or 3.

    Other lists of links, such as landmarks, count only without a table of contents. If the XML is not valid
    or declares entities, some of the names are lacking, or all.

    Raises:
        UnreadableFile: The table of contents is too large.
    """
    contents, others = dict[str, str](), dict[str, str]()
    names, member, label = others, "", ""
    with suppress(InvalidXml):
        for kind, element, attributes in package.events(name):
            target = attributes.get("src", "") or attributes.get("href", "")
            if kind == "text":
                label += element
            elif element == "nav":
                names = contents if "toc" in attributes.get("type", "").split() else others
            elif kind == "start" and element in ("navLabel", "a"):
                member, label = joined(dirname(name), target.partition("#")[0]), ""
            elif kind == "start" and element == "content":
                names.setdefault(joined(dirname(name), target.partition("#")[0]), label)
            elif kind == "end" and element == "a":
                names.setdefault(member, label)
    return contents or others


class _Visible(HTMLParser):
    """A parser that collects the visible text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = TextBuilder()
        self._title_pieces: list[str] = []
        self._pieces: list[str] = []
        self._cells: list[str] = []
        self._num_tables = 0
        self._hidden: list[str] = []
        self._is_heading = self._is_title = self._is_pre = False

    @property
    def title(self) -> str:
        """The first title that is not empty."""
        return "".join(self._title_pieces)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _INVISIBLE:
            self._hidden += [tag] * (tag not in self._hidden)
            self._is_title = tag == "title" and not self._title_pieces
        elif tag == "body":
            self._hidden.clear()  # an unclosed head ends here
        elif tag == "br":
            self._pieces.append("\n")
        elif tag in ("td", "th"):
            self._end_cell()
        elif tag == "tr":
            self._end_row()
        elif tag == "table":
            self.end_block()
            self._num_tables += 1
        elif tag not in _INLINE:
            self._block_starts()
            self._is_heading, self._is_pre = tag in _HEADINGS, tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag in _INVISIBLE:
            if tag in self._hidden:
                del self._hidden[self._hidden.index(tag) :]
            self._is_title = False
        elif tag in ("td", "th"):
            self._end_cell(is_closed=True)
        elif tag == "tr":
            self._end_row()
        elif tag == "table" and self._num_tables:
            self._end_row()
            self._num_tables -= 1
        elif tag not in _INLINE:
            self._block_starts()
            self._is_heading = self._is_pre = False

    def handle_data(self, data: str) -> None:
        if self._is_title:
            self._title_pieces.append(data)
        elif not self._hidden:
            self._pieces.append(data if self._is_pre else _SPACE.sub(" ", data))

    def end_block(self) -> None:
        """Append the block so far to the text."""
        lines, self._pieces = "".join(self._pieces).split("\n"), []
        self.text.block("\n".join(line.strip(" \t") for line in lines), is_heading=self._is_heading)

    def _block_starts(self) -> None:
        if self._num_tables:
            self._pieces.append(" ")
        else:
            self.end_block()

    def _end_cell(self, *, is_closed: bool = False) -> None:
        """Append a cell. One that was not closed, as HTML permits, is a cell if it has text."""
        cell, self._pieces = "".join(self._pieces), []
        if is_closed or cell.strip():
            self._cells.append(cell)

    def _end_row(self) -> None:
        self._end_cell()
        self.text.row(self._cells)
        self._cells = []


def _main_part(row: DocumentRow, body: Any) -> DocumentRow:
    """Return the part of a page from the first to the last line that trafilatura counts as main text.

    trafilatura leaves out many headings and lists within the main text, so only its bounds are taken. The
    headings directly before it belong to it.
    """
    elements = (element for element in body.iter() if element.tag in _MAIN_ELEMENTS)
    main = {_key("".join(element.itertext())) for element in elements} - {""}
    start, end, offset = len(row.text), 0, 0
    for line in row.text.splitlines(keepends=True):
        if _key(line) in main:
            start, end = min(start, offset), offset + len(line)
        offset += len(line)
    if start >= end:
        return row
    for mark in reversed([mark for mark in row.marks if mark.start < start]):
        if row.text[mark.start : start].replace(mark.section, "", 1).strip():
            break
        start = mark.start
    marks = [replace(mark, start=max(0, mark.start - start)) for mark in row.marks if mark.start < end]
    by_start = {mark.start: mark for mark in marks}
    return replace(row, text=row.text[start:end], marks=tuple(by_start.values()))


def _key(text: str) -> str:
    """Return the letters and digits of a text, by which it is compared."""
    return _NO_LETTER.sub("", text)
