"""The readers of plain text, Markdown and other markup, and source code."""

import re
from pathlib import Path

from askance.retrieval.index.formats.content import DocumentRow, Mark, Rows, check_size
from askance.retrieval.index.formats.encodings import checked_encoding, decoded
from askance.retrieval.index.formats.fields import author_field

SOURCE_CODE = (
    ".py .pyi .js .mjs .ts .tsx .jsx .java .kt .scala .c .h .cc .cpp .hpp .cs .go .rs .rb .php .swift .m .r "
    ".jl .lua .pl .sh .bash .ps1 .sql .css .scss .vue .hs .ml .ex .erl .clj .dart .toml .yaml .yml .ini .cfg "
    ".conf .xml .xsd .proto .tf .cmake .gradle .log"
).split()
PLAIN_TEXT = ".txt .text .srt .vtt".split()
_HEADING = re.compile(r"#{1,6}[ \t]+([^ \t].*)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,})[ \t]*")
_FLAGS = re.MULTILINE | re.IGNORECASE
_FENCE = re.compile(r" {0,3}(```|~~~)")
_TO_LINE_END = r"[ \t\r]*$"
MARKUP = {
    ".rst": (
        r"^(\S.{0,300})\n([-=~^\"'`#*+.:_<>])\2{2,}" + _TO_LINE_END,
        "",
        r"^:Author:[ \t]+(.+)",
    ),
    ".adoc": (r"^={1,6}[ \t]+(\S.*)", "", r"\A=[ \t]+\S.*\n(?![:/\s])(.+)|^:author:[ \t]+(.+)"),
    ".org": (r"^\*+[ \t]+(\S.*)", r"^#\+title:[ \t]+(.+)", r"^#\+author:[ \t]+(.+)"),
    ".tex": (
        r"^[ \t]*\\(?:part|chapter|(?:sub){0,2}section)\*?(?:\[.{0,300}?\])?\{(.{1,300}?)\}"
        r"(?:[ \t]*\\label\{[^{}]*\})?" + _TO_LINE_END,
        r"^[ \t]*\\title\{(.{1,300})\}",
        r"^[ \t]*\\author\{(.{1,300})\}",
    ),
}
"""The patterns of a heading, of the title if it is no heading, and of the author, by extension."""


def read_plain(path: Path) -> Rows:
    """Yield the file as one row, with its line endings as they are."""
    yield DocumentRow("", _text(path))


def read_code(path: Path) -> Rows:
    """Yield the file as one row. The title is the name of the file with its extension."""
    yield DocumentRow(path.name, _text(path))


def read_markdown(path: Path) -> Rows:
    """Yield the file as one row, with its headings outside code blocks as sections.

    The title is the title in the metadata at its beginning, or else the first heading.
    """
    text = _text(path)
    metadata, marks, start, is_code, before = dict[str, str](), list[Mark](), 0, False, ""
    is_metadata = text.startswith("---\n")
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        if is_metadata and start:
            is_metadata = bare not in ("---", "...")
            key, _, value = bare.partition(":")
            if is_metadata and value.strip():
                metadata.setdefault(key, _unquoted(value.strip()))
        elif _FENCE.match(bare):
            is_code = not is_code
        elif not is_code and not is_metadata and (heading := _HEADING.fullmatch(bare)):
            marks.append(Mark(start, 0, heading[1].rstrip(" \t").rstrip("#").rstrip(" \t")))
        elif not is_code and not is_metadata and before.strip() and _UNDERLINE.fullmatch(bare):
            marks.append(Mark(start - len(before), 0, before.strip()))
        before = (
            line if not is_code and bare.strip() and not bare.startswith(("#", ">", "-", "|", " ")) else ""
        )
        start += len(line)
    yield _document(text, metadata.get("title", ""), metadata.get("author", ""), marks)


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value


def read_markup(path: Path) -> Rows:
    """Yield a reStructuredText, AsciiDoc, Org or LaTeX file as one row, with its headings as sections."""
    text = _text(path)
    heading, title, author = MARKUP[path.suffix.lower()]
    marks = [Mark(found.start(), 0, found[1].strip()) for found in re.finditer(heading, text, _FLAGS)]
    yield _document(text, _first(title, text), _first(author, text), marks)


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, _FLAGS) if pattern else None
    return next(filter(None, found.groups())).strip() if found else ""


def _document(text: str, title: str, author: str, marks: list[Mark]) -> DocumentRow:
    first = next((mark.section for mark in marks if mark.section), "")
    return DocumentRow(title or first, text, marks=tuple(marks), fields=author_field(author))


def _text(path: Path) -> str:
    check_size(path.stat().st_size)
    checked_encoding(path)
    return decoded(path.read_bytes())
