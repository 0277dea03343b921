"""The reader of PDF files."""

import ctypes
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
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
MAX_ANNOTATIONS = 20_000
MAX_SEARCHED_CHARACTERS = 20_000
"""How much of a page is searched for the title of a bookmark, from the title before it on."""
_MAX_TITLE_CHARACTERS = 300
_HYPHENATION = "\x02"
_ARABIC = re.compile("[\u0600-\u06ff]")
_PDFIUM = threading.Lock()
"""PDFium must not be called by two threads at a time."""


def read_pdf(path: Path) -> Rows:
    """Yield the file as one row, with its pages, its bookmarks as sections, and the title of its metadata.

    The notes and the filled-in fields of a page follow its text.

    Raises:
        UnreadableFile: The file is encrypted, damaged, too large, or has no text.
    """
    import pypdfium2

    check_size(path.stat().st_size)
    content = path.read_bytes()
    try:
        with _PDFIUM, pypdfium2.PdfDocument(content) as document:
            with suppress(pypdfium2.PdfiumError):
                document.init_forms()
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
    """Yield the text of each page, with its notes and the values of its form at the end."""
    num_characters = num_annotations = 0
    for page in document:
        text_page = page.get_textpage()
        text = _with_letters_in_order(text_page.get_text_bounded(), text_page)
        text_page.close()
        # PDFium ends lines with CRLF, and leaves a marker where a word was hyphenated at the end of a line.
        lines = [text.replace("\r\n", "\n").replace("\r", "\n").replace(_HYPHENATION, "")]
        for annotation in _annotations(page, MAX_ANNOTATIONS - num_annotations):
            num_annotations += 1
            lines += filter(None, [_annotation_text(annotation, document.formenv)])
        page.close()
        num_characters += sum(map(len, lines))
        check_length(num_characters)
        yield "\n".join(lines)


def _with_letters_in_order(text: str, text_page: Any) -> str:
    """Return text in which the letters of an Arabic ligature are in order.

    PDFium reverses text that is written from right to left letter by letter, also letters that share a glyph,
    and so a place on the page.
    """
    if not _ARABIC.search(text) or text_page.count_chars() != len(text):
        return text

    def place(index: int) -> Any:
        box = text_page.get_charbox(index) if _ARABIC.match(text[index]) else (0, 0, 0, 0)
        return box if box[0] < box[2] else index

    glyphs = (list(indices) for _, indices in groupby(range(len(text)), place))
    return "".join(text[index] for indices in glyphs for index in reversed(indices))


def _annotations(page: Any, max_annotations: int) -> Iterator[Any]:
    from pypdfium2 import raw

    for number in range(min(raw.FPDFPage_GetAnnotCount(page), max_annotations)):
        if annotation := raw.FPDFPage_GetAnnot(page, number):
            yield annotation
            raw.FPDFPage_CloseAnnot(annotation)


def _annotation_text(annotation: Any, form: Any) -> str:
    """Return the text of a note, or the name and the value of a filled-in field; else an empty string."""
    from pypdfium2 import raw

    kind = raw.FPDFAnnot_GetSubtype(annotation)
    if raw.FPDFAnnot_GetFlags(annotation) & (raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW):
        return ""
    if kind != raw.FPDF_ANNOT_WIDGET:
        is_note = kind not in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP)
        return _string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents") if is_note else ""
    field = raw.FPDFAnnot_GetFormFieldType(form, annotation) if form else raw.FPDF_FORMFIELD_UNKNOWN
    value = ""
    if field == raw.FPDF_FORMFIELD_CHECKBOX and raw.FPDFAnnot_IsChecked(form, annotation):
        value = "ticked"
    elif field == raw.FPDF_FORMFIELD_RADIOBUTTON and raw.FPDFAnnot_IsChecked(form, annotation):
        value = _string(raw.FPDFAnnot_GetFormFieldExportValue, form, annotation)
    elif field in (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        is_secret = raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & raw.FPDF_FORMFLAG_TEXT_PASSWORD
        value = "" if is_secret else _string(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    name = _string(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    name = name or _string(raw.FPDFAnnot_GetFormFieldName, form, annotation).rpartition(".")[2]
    return f"{name}: {value}" if value else ""


def _string(call: Callable[..., int], *arguments: Any) -> str:
    """Return the UTF-16 string that a function of PDFium writes."""
    buffer = (ctypes.c_ushort * (call(*arguments, None, 0) // 2 + 1))()
    call(*arguments, buffer, ctypes.sizeof(buffer))
    return bytes(buffer).decode("utf-16-le", "replace").partition("\0")[0].replace("\r", "\n").strip()


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
