"""The readers of plain text, Markdown, notebooks and other markup, and source code."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from askance.retrieval.index.formats.content import (
    DocumentRow,
    Mark,
    Rows,
    check_length,
    check_size,
    unreadable,
)
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
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_IN_BRACES = r"(?:\[[^\[\]]{0,300}\])?\{((?:[^{}#]|\{[^{}#]{0,300}\}){1,300})\}"
"""A LaTeX argument, after an optional one. One with a "#" belongs to the definition of a command."""


_EMBEDDED = re.compile(r"data:[\w.+/-]{1,100};base64,[\w+/=%]*")
_COLOURS = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_FENCES = re.compile("`{3,}")


class _Markup(NamedTuple):
    """The patterns of a markup language.

    Attributes:
        heading: A heading, which is the first group that matches.
        author: The author.
        title: The title, if it is no heading.
        verbatim: A part of the text in which nothing is a heading. One that does not end reaches to the end.
    """

    heading: str
    author: str
    title: str = r"(?!)"
    verbatim: str = r"(?!)"


MARKUP = {
    # The underline may be shorter than the heading from four characters on, as for Docutils. A line of text
    # directly before the heading, as before the last rule of a table, makes it no heading.
    ".rst": _Markup(
        r"(?<!\w\n)(?<!\w\r\n)^(?!>>>|\.\.\.)(?:(\S.{0,300})\n([-=~^\"'`#*+.:_<>])\2{3,}"
        r"|(\S.{0,2})\r?\n([-=~^\"'`#*+.:_<>])\4{2})[ \t\r]*$",
        author=r"^:Author:[ \t]+(.+)",
    ),
    ".adoc": _Markup(
        r"^={1,6}[ \t]+(\S.*)",
        author=r"\A=[ \t]+\S.*\n(?![:/\s])(.+)|^:author:[ \t]+(.+)",
        verbatim=r"^(-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,})(?:(?<=```).*|[ \t\r]*)\n(?s:.*?)(?:^\1[ \t\r]*$|\Z)",
    ),
    ".org": _Markup(
        r"^\*+[ \t]+(\S.*)",
        author=r"^#\+author:[ \t]+(.+)",
        title=r"^#\+title:[ \t]+(.+)",
        verbatim=r"^[ \t]*#\+begin_(src|example|export|comment)\b(?s:.*?)(?:^[ \t]*#\+end_\1\b|\Z)",
    ),
    ".tex": _Markup(
        rf"\\(?:part|chapter|(?:sub){{0,2}}section)\*?{_IN_BRACES}",
        author=rf"\\author{_IN_BRACES}",
        title=rf"\\title{_IN_BRACES}",
        verbatim=r"\\begin\{(verbatim\*?|lstlisting|minted|comment)\}(?s:.*?)(?:\\end\{\1\}|\Z)"
        r"|\\[^a-z\n]|%.*",
    ),
}
"""The patterns of the markup languages, by extension."""


def read_plain(path: Path) -> Rows:
    """Yield the file as one row, with its line endings as they are."""
    yield DocumentRow("", _text(path))


def read_code(path: Path) -> Rows:
    """Yield the file as one row. The title is the name of the file with its extension."""
    yield DocumentRow(path.name, _text(path))


def read_markdown(path: Path) -> Rows:
    """Yield the file as one row, with its headings outside code blocks as sections."""
    yield markdown_document(_text(path))


def markdown_document(text: str) -> DocumentRow:
    """Return Markdown as a row.

    The title is the title in the metadata at its beginning, or else the first heading.
    """
    metadata, marks, start, fence, before = dict[str, str](), list[Mark](), 0, "", ""
    is_metadata = text.startswith("---\n")
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        if is_metadata and start:
            is_metadata = bare not in ("---", "...")
            key, _, value = bare.partition(":")
            if is_metadata and value.strip():
                metadata.setdefault(key, _unquoted(value.strip()))
        elif (found := _FENCE.match(bare)) and found[1].startswith(fence):
            fence = "" if fence else found[1]
        elif not fence and not is_metadata and (heading := _HEADING.fullmatch(bare)):
            marks.append(Mark(start, 0, heading[1].rstrip(" \t").rstrip("#").rstrip(" \t")))
        elif not fence and not is_metadata and before.strip() and _UNDERLINE.fullmatch(bare):
            marks.append(Mark(start - len(before), 0, before.strip()))
        before = line if not fence and bare.strip() and not bare.startswith(("#", ">", "-", "|", " ")) else ""
        start += len(line)
    return _document(text, metadata.get("title", ""), metadata.get("author", ""), marks)


def read_notebook(path: Path) -> Rows:
    """Yield the notebook as one row of Markdown, in which code and the text that it wrote are code blocks.

    Pictures and other output are left out.

    Raises:
        UnreadableFile: The file is no notebook, or too large.
    """
    check_size(path.stat().st_size)
    errors = (ValueError, RecursionError, TypeError, KeyError, AttributeError)
    with unreadable("no notebook of Jupyter that can be read", *errors):
        notebook = json.loads(decoded(path.read_bytes()))
        sheets = notebook.get("worksheets") or [notebook]  # format 3 has sheets
        cells = [cell for sheet in sheets for cell in sheet["cells"]]
        blocks = [block for cell in cells for block in _blocks(cell)]
    check_length(sum(map(len, blocks)))
    yield markdown_document("\n\n".join(filter(None, blocks)))


def _blocks(cell: Any) -> Iterator[str]:
    """Yield the blocks of Markdown of a cell."""
    source = _source(cell.get("source", cell.get("input", "")))
    if cell["cell_type"] == "code":
        yield _fenced(source)
        for output in cell.get("outputs", ()):
            data = output.get("data", output)
            error = f"{output['ename']}: {output.get('evalue')}" if "ename" in output else ""
            text = data.get("text/plain", data.get("text", error))
            yield _source(data["text/markdown"]) if "text/markdown" in data else _fenced(_source(text))
    else:
        yield "#" * cell["level"] + f" {source}" if cell["cell_type"] == "heading" else source


def _source(lines: Any) -> str:
    """Return text that is given as a whole or line by line, without what it embeds and its colours."""
    text = lines if isinstance(lines, str) else "".join(lines)
    return _COLOURS.sub("", _EMBEDDED.sub("", text)).strip("\n")


def _fenced(code: str) -> str:
    fence = max([*_FENCES.findall(code), "``"], key=len) + "`"
    return f"{fence}\n{code}\n{fence}" if code.strip() else ""


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value


def read_markup(path: Path) -> Rows:
    """Yield a reStructuredText, AsciiDoc, Org or LaTeX file as one row, with its headings as sections."""
    text = _text(path)
    markup = MARKUP[path.suffix.lower()]
    searched = re.sub(markup.verbatim, lambda part: "\0" * len(part[0]), text, flags=_FLAGS)
    marks = [
        Mark(found.start(), 0, _group(found, text)) for found in re.finditer(markup.heading, searched, _FLAGS)
    ]
    title, author = (re.search(pattern, searched, _FLAGS) for pattern in (markup.title, markup.author))
    yield _document(text, _group(title, text), _group(author, text), marks)


def _group(found: re.Match[str] | None, text: str) -> str:
    """Return what the first group matched, taken from `text`, on one line; empty without a match."""
    if found is None:
        return ""
    span = next(found.span(number) for number, group in enumerate(found.groups(), start=1) if group)
    return " ".join(text[slice(*span)].split())


def _document(text: str, title: str, author: str, marks: list[Mark]) -> DocumentRow:
    first = next((mark.section for mark in marks if mark.section), "")
    return DocumentRow(title or first, text, marks=tuple(marks), fields=author_field(author))


def _text(path: Path) -> str:
    check_size(path.stat().st_size)
    return path.read_bytes().decode(checked_encoding(path), "replace")


TEXT_READERS: Mapping[str, Callable[[Path], Rows]] = {
    **dict.fromkeys((".md", ".markdown"), read_markdown),
    ".ipynb": read_notebook,
    **dict.fromkeys(PLAIN_TEXT, read_plain),
    **dict.fromkeys(MARKUP, read_markup),
    **dict.fromkeys(SOURCE_CODE, read_code),
}
