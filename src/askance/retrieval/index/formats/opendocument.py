"""The reader of OpenDocument texts, presentations and their tables."""

from pathlib import Path

from askance.retrieval.index.formats.content import Rows, TextBuilder, UnreadableFile
from askance.retrieval.index.formats.packages import open_package

_MAX_SPACES = 100
_LEFT_OUT = ("tracked-changes", "annotation", "automatic-styles", "note-citation")


def read_odt(path: Path) -> Rows:
    """Yield a text as one row, with its headings as sections. Deleted text and comments are left out.

    Raises:
        UnreadableFile: The file is damaged, encrypted or too large.
    """
    with open_package(path) as package:
        if any(event.name == "encryption-data" for event in package.events("META-INF/manifest.xml")):
            raise UnreadableFile("encrypted; remove its password first")
        text, pieces, cells, cell = TextBuilder(), list[str](), list[str](), list[str]()
        left_out = num_tables = num_open = 0
        for event in package.events("content.xml"):
            name, is_start = event.name, event.kind == "start"
            if event.kind == "text":
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
                    paragraph, pieces = "".join(pieces), []
                    if num_tables:
                        cell.append(paragraph)
                    elif name == "h":
                        text.heading(paragraph)
                    else:
                        text.paragraph(paragraph)
            elif name == "table":
                num_tables += 1 if is_start else -1
            elif is_start and name in ("tab", "line-break"):
                pieces.append("\t" if name == "tab" else "\n")
            elif is_start and name == "s":
                count = event.attributes.get("c", "1")
                pieces.append(" " * min(_MAX_SPACES, int(count) if count.isdecimal() else 1))
            elif not is_start and name == "table-cell":
                cells.append(" ".join(cell))
                cell = []
            elif not is_start and name == "table-row" and num_tables == 1:
                text.row(cells)
                cells = []
        yield text.document(package.text_of("meta.xml", "title"), package.text_of("meta.xml", "creator"))
