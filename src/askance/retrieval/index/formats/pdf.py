"""The reader of PDF files."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from askance.retrieval.index.formats.content import (
    DocumentRow,
    Mark,
    Rows,
    UnreadableFile,
    check_length,
    check_size,
    given_title,
)
from askance.retrieval.index.formats.fields import author_field

MAX_PAGES = 20_000
MAX_BOOKMARKS = 20_000
MAX_SEARCHED_CHARACTERS = 20_000
"""How much of a page is searched for the title of a bookmark, from the title before it on."""
_MAX_TITLE_CHARACTERS = 300
_HYPHENATION = "\x02"
_PDFIUM = threading.Lock()
"""PDFium must not be called by two threads at a time."""


def read_pdf(path: Path) -> Rows:
    """Yield the file as one row, with its pages, its bookmarks as sections, and the title of its metadata.

    Raises:
        UnreadableFile: The file is encrypted, damaged, too large, or has no text.
    """
    import pypdfium2

    check_size(path.stat().st_size)
    content = path.read_bytes()
    try:
        with _PDFIUM, pypdfium2.PdfDocument(content) as document:
            if len(document) > MAX_PAGES:
                raise UnreadableFile(f"a PDF of {len(document):,} pages; up to {MAX_PAGES:,} are read")
            pages = list(_pages(document))
            bookmarks = list(_bookmarks(document))
            title = given_title(document.get_metadata_value("Title"))
            author = document.get_metadata_value("Author")
    except pypdfium2.PdfiumError as error:
        if "password" in str(error):
            raise UnreadableFile("an encrypted PDF; remove its password first") from error
        raise UnreadableFile(f"a PDF that can't be read ({error}); save it again in a PDF program") from error
    if not any(page.strip() for page in pages):
        raise UnreadableFile("a PDF without text (scanned pages need text recognition first)")
    marks = tuple(_marks(pages, bookmarks))
    yield DocumentRow(title, "\n".join(pages), marks=marks, fields=author_field(author))


def _pages(document: Any) -> Iterator[str]:
    num_characters = 0
    for page in document:
        text_page = page.get_textpage()
        text = text_page.get_text_bounded()
        text_page.close()
        page.close()
        # PDFium ends lines with CRLF, and leaves a marker where a word was hyphenated at the end of a line.
        text = text.replace("\r\n", "\n").replace("\r", "\n").replace(_HYPHENATION, "")
        num_characters += len(text)
        check_length(num_characters)
        yield text


def _bookmarks(document: Any) -> Iterator[tuple[int, str]]:
    """Yield the page, from 0, and the title of each bookmark that leads to a page."""
    for number, bookmark in enumerate(document.get_toc(max_depth=8)):
        if number == MAX_BOOKMARKS:
            return
        target, title = bookmark.get_dest(), " ".join(bookmark.get_title().split())
        if target is not None and title and (page := target.get_index()) is not None:
            yield page, title


def _marks(pages: list[str], bookmarks: list[tuple[int, str]]) -> Iterator[Mark]:
    """Yield a mark for each page, and for each bookmark whose title is found on its page.

    A bookmark whose title is not found counts from the beginning of its page.
    """
    start, section = 0, ""
    titles: dict[int, list[str]] = {}
    for number, title in bookmarks:
        titles.setdefault(number, []).append(title)
    for number, page in enumerate(pages):
        found: dict[int, str] = {0: section}
        position = 0
        for title in titles.get(number, []):
            words = title[:_MAX_TITLE_CHARACTERS].split()
            pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
            match = pattern.search(page, position, position + MAX_SEARCHED_CHARACTERS)
            position = match.start() if match else position
            found[position] = title
        for position, section in found.items():
            yield Mark(start + position, number + 1, section)
        start += len(page) + 1
