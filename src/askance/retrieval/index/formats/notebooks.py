"""The reader of Jupyter notebooks."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from askance.retrieval.index.formats.content import Rows, check_length, check_size, unreadable
from askance.retrieval.index.formats.encodings import decoded
from askance.retrieval.index.formats.plain import markdown_document

_EMBEDDED = re.compile(r"data:[\w.+/-]{1,100};base64,[\w+/=%]*")
_COLOURS = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_FENCE = re.compile("`{3,}")


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
    source = _text(cell.get("source", cell.get("input", "")))
    if cell["cell_type"] == "code":
        yield _fenced(source)
        for output in cell.get("outputs", ()):
            data = output.get("data", output)
            error = f"{output['ename']}: {output.get('evalue')}" if "ename" in output else ""
            text = data.get("text/plain", data.get("text", error))
            yield _text(data["text/markdown"]) if "text/markdown" in data else _fenced(_text(text))
    else:
        yield "#" * cell["level"] + f" {source}" if cell["cell_type"] == "heading" else source


def _text(lines: Any) -> str:
    """Return text that is given as a whole or line by line, without what it embeds and its colours."""
    text = lines if isinstance(lines, str) else "".join(lines)
    return _COLOURS.sub("", _EMBEDDED.sub("", text)).strip("\n")


def _fenced(code: str) -> str:
    fence = max([*_FENCE.findall(code), "``"], key=len) + "`"
    return f"{fence}\n{code}\n{fence}" if code.strip() else ""
