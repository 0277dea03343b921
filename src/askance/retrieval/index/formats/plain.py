"""The readers of plain text, Markdown and source code."""

import re
from pathlib import Path

from askance.retrieval.index.formats.content import DocumentRow, Mark, Rows, check_size
from askance.retrieval.index.formats.encodings import checked_encoding, decoded

SOURCE_CODE = (
    ".py .pyi .js .mjs .ts .tsx .jsx .java .kt .scala .c .h .cc .cpp .hpp .cs .go .rs .rb .php .swift .m .r "
    ".jl .lua .pl .sh .bash .ps1 .sql .css .scss .vue .hs .ml .ex .erl .clj .dart .toml .yaml .yml .ini .cfg "
    ".conf .xml .xsd .proto .tf .cmake .gradle .log"
).split()
PLAIN_TEXT = ".txt .text .rst .adoc .org .tex .srt .vtt".split()
_HEADING = re.compile(r"#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,})[ \t]*")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_METADATA_TITLE = re.compile(r"title:\s*(['\"]?)(.+?)\1\s*")


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
    title, marks, start, is_code, before = "", list[Mark](), 0, False, ""
    is_metadata = text.startswith("---\n")
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        if is_metadata and start:
            is_metadata = bare not in ("---", "...")
            if is_metadata and (found := _METADATA_TITLE.fullmatch(bare)):
                title = title or found[2]
        elif _FENCE.match(bare):
            is_code = not is_code
        elif not is_code and not is_metadata and (heading := _HEADING.fullmatch(bare)):
            marks.append(Mark(start, 0, heading[1]))
        elif not is_code and not is_metadata and before.strip() and _UNDERLINE.fullmatch(bare):
            marks.append(Mark(start - len(before), 0, before.strip()))
        before = (
            line if not is_code and bare.strip() and not bare.startswith(("#", ">", "-", "|", " ")) else ""
        )
        start += len(line)
    first = marks[0].section if marks else ""
    yield DocumentRow(title or first, text, marks=tuple(marks))


def _text(path: Path) -> str:
    check_size(path.stat().st_size)
    checked_encoding(path)
    return decoded(path.read_bytes())
