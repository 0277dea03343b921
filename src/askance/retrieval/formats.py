"""Files that are one document each: plain text, Markdown, HTML and PDF.

Each reader returns (title, text); the title is empty where the file has none. A DocumentError here carries
the bare reason, since the file is then skipped under its own name. Text keeps its line ends as they are.
"""

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from askance.core.errors import DocumentError, MissingExtra

_HEADING = re.compile(r"#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_PARTED = "\x02"
_PDFIUM = threading.Lock()
"""PDFium must not be called by two threads at a time."""
_UNSEEN_TAGS = ("script", "style", "template", "noscript", "head", "title")


def read_plain(path: Path) -> tuple[str, str]:
    """The file as it is."""
    return "", _decode(path)


def read_markdown(path: Path) -> tuple[str, str]:
    """The file as it is; its title is the first heading outside code."""
    text = _decode(path)
    is_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and (heading := _HEADING.fullmatch(line)):
            return heading.group(1), text
    return "", text


def read_html(path: Path) -> tuple[str, str]:
    """The page's title and main text. Where no main text stands out, all of its visible text."""
    try:
        from trafilatura import bare_extraction
    except ImportError as error:
        raise MissingExtra("trafilatura", "html", f"reading {path}") from error
    page = _decode(path)
    main = bare_extraction(page, with_metadata=True, include_comments=False)
    title, text = _visible(page)
    return str(getattr(main, "title", None) or title).strip(), str(getattr(main, "text", None) or text)


def read_pdf(path: Path) -> tuple[str, str]:
    """The title in the file's metadata, and the text of its pages, one after another."""
    import pypdfium2

    content = path.read_bytes()
    try:
        with _PDFIUM, pypdfium2.PdfDocument(content) as document:
            text = "\n".join(page.get_textpage().get_text_bounded() for page in document)
            title = document.get_metadata_value("Title")
    except pypdfium2.PdfiumError as error:
        if "password" in str(error):
            raise DocumentError("an encrypted PDF; remove its password first") from error
        raise DocumentError(f"a PDF that can't be read: {error}") from error
    # PDFium ends lines like DOS, and leaves its mark where a word was parted at the end of one.
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace(_PARTED, "")
    if not text.strip():
        raise DocumentError("a PDF without text (scanned pages need text recognition first)")
    return title.strip(), text.encode("utf-8", "replace").decode()


WHOLE_FILE_READERS: Mapping[str, Callable[[Path], tuple[str, str]]] = {
    ".txt": read_plain,
    ".md": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": read_pdf,
}


def _decode(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig")


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
